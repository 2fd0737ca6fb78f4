// Counts the words of texts that come from a pull queue, on App Engine's bundled services. To try it, in this
// folder:
//
//	go mod tidy && go build -o words .
//	pullqueue serve --port-file port.txt queue.yaml &
//	pullqueue wait --port-file port.txt
//	export PULLQUEUE_EMULATOR_HOST=127.0.0.1:8124
//	pullqueue exec -- ./words add "to be or not to be"
//	pullqueue exec -- ./words work
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"unicode/utf8"

	"google.golang.org/appengine"
	"google.golang.org/appengine/taskqueue"
)

const (
	queue        = "words"
	leaseSeconds = 60
	tasksAtATime = 10
)

func add(ctx context.Context, text string) error {
	_, err := taskqueue.Add(ctx, &taskqueue.Task{Method: "PULL", Payload: []byte(text)}, queue)
	return err
}

// Works until there is no task left.
func work(ctx context.Context) error {
	for {
		tasks, err := taskqueue.Lease(ctx, tasksAtATime, queue, leaseSeconds)
		if err != nil || len(tasks) == 0 {
			return err
		}
		for _, task := range tasks {
			if err := workOn(ctx, task); err != nil {
				return err
			}
		}
	}
}

func workOn(ctx context.Context, task *taskqueue.Task) error {
	// The tasks before this one may have taken their time.
	if err := taskqueue.ModifyLease(ctx, task, queue, leaseSeconds); err != nil {
		return err
	}
	if !utf8.Valid(task.Payload) {
		fmt.Printf("cannot read %s, time %d\n", task.Name, task.RetryCount)
		return taskqueue.ModifyLease(ctx, task, queue, 0)
	}
	counts := map[string]int{}
	for _, word := range strings.Fields(string(task.Payload)) {
		counts[word]++
	}
	if err := json.NewEncoder(os.Stdout).Encode(counts); err != nil {
		return err
	}
	return taskqueue.Delete(ctx, task, queue)
}

func main() {
	ctx := appengine.BackgroundContext()
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 2 && arguments[0] == "add":
		err = add(ctx, arguments[1])
	case len(arguments) == 1 && arguments[0] == "work":
		err = work(ctx)
	default:
		log.Fatal(`usage: words add TEXT, or words work`)
	}
	if err != nil {
		log.Fatal(err)
	}
}
