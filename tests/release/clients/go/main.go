// An app on App Engine's Go package: without arguments a web app, with "calls" a program that makes every call of
// the package `taskqueue` for pull queues and prints what came of it as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"google.golang.org/appengine"
	"google.golang.org/appengine/log"
	"google.golang.org/appengine/taskqueue"
)

func pull(payload, name, tag string) *taskqueue.Task {
	return &taskqueue.Task{Method: "PULL", Payload: []byte(payload), Name: name, Tag: tag}
}

func payloads(tasks []*taskqueue.Task) []string {
	found := []string{}
	for _, task := range tasks {
		found = append(found, string(task.Payload))
	}
	return found
}

// Returns one text for each error of a call on several tasks.
func texts(err error) []string {
	found := []string{}
	several, ok := err.(appengine.MultiError)
	if !ok {
		several = appengine.MultiError{err}
	}
	for _, each := range several {
		found = append(found, fmt.Sprint(each))
	}
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func calls(ctx context.Context) map[string]interface{} {
	results := map[string]interface{}{}
	log.Infof(ctx, "a line of the log")

	added, err := taskqueue.Add(ctx, pull("one", "mine", "a"), "pull")
	must(err)
	results["added"] = added.Name
	several, err := taskqueue.AddMulti(ctx, []*taskqueue.Task{pull("again", "mine", ""), pull("two", "", "b")}, "pull")
	results["taken"] = texts(err)
	results["generated"] = len(several[1].Name)

	leased, err := taskqueue.LeaseByTag(ctx, 10, "pull", 60, "b")
	must(err)
	results["leased by tag"] = payloads(leased)
	must(taskqueue.ModifyLease(ctx, leased[0], "pull", 0))
	leased, err = taskqueue.LeaseByTag(ctx, 10, "pull", 60, "")
	must(err)
	results["leased by oldest tag"] = payloads(leased)
	must(taskqueue.ModifyLease(ctx, leased[0], "pull", 600))
	results["extended"] = leased[0].ETA.Sub(time.Now()).Minutes() > 9
	must(taskqueue.Delete(ctx, leased[0], "pull"))
	results["lease that is over"] = texts(taskqueue.ModifyLease(ctx, leased[0], "pull", 60))

	leased, err = taskqueue.Lease(ctx, 10, "pull", 60)
	must(err)
	results["leased"] = payloads(leased)
	results["retry count"] = leased[0].RetryCount
	stats, err := taskqueue.QueueStats(ctx, []string{"pull"})
	must(err)
	results["in flight"] = stats[0].InFlight
	results["deleted"] = texts(taskqueue.DeleteMulti(ctx, append(leased, pull("", "nothing", "")), "pull"))

	_, err = taskqueue.Add(ctx, pull("three", "", ""), "pull")
	must(err)
	must(taskqueue.Purge(ctx, "pull"))
	stats, err = taskqueue.QueueStats(ctx, []string{"pull"})
	must(err)
	results["left"] = stats[0].Tasks
	_, err = taskqueue.Add(ctx, pull("", "", ""), "pul")
	results["unknown queue"] = texts(err)

	results["app"] = []string{
		appengine.AppID(ctx), appengine.ModuleName(ctx), appengine.VersionID(ctx), appengine.InstanceID(),
	}
	time.Sleep(1500 * time.Millisecond) // The package sends its log every second.
	return results
}

func count(w http.ResponseWriter, r *http.Request) {
	ctx := appengine.NewContext(r)
	log.Infof(ctx, "a request")
	_, err := taskqueue.Add(ctx, pull(r.URL.Path, "", ""), "pull")
	must(err)
	stats, err := taskqueue.QueueStats(ctx, []string{"pull"})
	must(err)
	fmt.Fprintln(w, stats[0].Tasks)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "calls" {
		must(json.NewEncoder(os.Stdout).Encode(calls(appengine.BackgroundContext())))
		return
	}
	http.HandleFunc("/", count)
	appengine.Main()
}
