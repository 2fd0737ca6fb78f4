// Entities, transactions with tasks, and memcache with Google's Go package, reported as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"google.golang.org/appengine"
	"google.golang.org/appengine/datastore"
	"google.golang.org/appengine/memcache"
	"google.golang.org/appengine/taskqueue"
)

// Order is one order.
type Order struct {
	Item  string
	Count int
}

var errRollback = errors.New("rolled back")

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// place stores an order with a pull task, and returns `fail`, which rolls back.
func place(ctx context.Context, item string, fail error) error {
	return datastore.RunInTransaction(ctx, func(ctx context.Context) error {
		key := datastore.NewKey(ctx, "Order", item, 0, nil)
		if _, err := datastore.Put(ctx, key, &Order{Item: item, Count: 1}); err != nil {
			return err
		}
		task := &taskqueue.Task{Method: "PULL", Payload: []byte(item)}
		if _, err := taskqueue.Add(ctx, task, "pull"); err != nil {
			return err
		}
		return fail
	}, nil)
}

// increment adds one to the count of an order, and tries again while others do so.
func increment(ctx context.Context, item string) error {
	return datastore.RunInTransaction(ctx, func(ctx context.Context) error {
		key, order := datastore.NewKey(ctx, "Order", item, 0, nil), Order{}
		if err := datastore.Get(ctx, key, &order); err != nil {
			return err
		}
		order.Count++
		_, err := datastore.Put(ctx, key, &order)
		return err
	}, &datastore.TransactionOptions{Attempts: 100})
}

func main() {
	ctx := appengine.BackgroundContext()
	must(place(ctx, "tea", nil))
	failed := place(ctx, "coffee", errRollback)
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			must(increment(ctx, "tea"))
		}()
	}
	group.Wait()
	var orders []Order
	keys, err := datastore.NewQuery("Order").Filter("Count >", 0).GetAll(ctx, &orders)
	must(err)
	tasks, err := taskqueue.Lease(ctx, 10, "pull", 60)
	must(err)
	must(memcache.Set(ctx, &memcache.Item{Key: "a", Value: []byte("1")}))
	item, err := memcache.Get(ctx, "a")
	must(err)
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"app":      keys[0].AppID(),
		"orders":   orders,
		"failed":   failed.Error(),
		"tasks":    len(tasks),
		"payload":  string(tasks[0].Payload),
		"memcache": string(item.Value),
	}))
}
