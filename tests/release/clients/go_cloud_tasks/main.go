// The life of tasks with Google's Go client of Cloud Tasks v2, reported as JSON on standard output.
// Argument: the server's gRPC address.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	cloudtasks "cloud.google.com/go/cloudtasks/apiv2"
	"github.com/golang/protobuf/ptypes/duration"
	"github.com/golang/protobuf/ptypes/timestamp"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	pb "google.golang.org/genproto/googleapis/cloud/tasks/v2"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // what Details() can decode
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

const location = "projects/app/locations/us-central1"
const parent = location + "/queues/go-grpc"

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	client, err := cloudtasks.NewClient(ctx, option.WithEndpoint(os.Args[1]),
		option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithInsecure()))
	must(err)
	retry := &pb.RetryConfig{MinBackoff: &duration.Duration{Nanos: 100_000_000}}
	_, err = client.CreateQueue(ctx, &pb.CreateQueueRequest{
		Parent: location, Queue: &pb.Queue{Name: parent, RetryConfig: retry}})
	must(err)
	create := func(name string, at *timestamp.Timestamp) (string, error) {
		task := &pb.Task{
			Name:         parent + "/tasks/" + name,
			ScheduleTime: at,
			MessageType: &pb.Task_HttpRequest{HttpRequest: &pb.HttpRequest{
				Url: "https://api.example.com/" + name, Body: []byte("work"),
				AuthorizationHeader: &pb.HttpRequest_OidcToken{OidcToken: &pb.OidcToken{
					ServiceAccountEmail: "worker@app.iam.gserviceaccount.com"}}}},
		}
		created, err := client.CreateTask(ctx, &pb.CreateTaskRequest{Parent: parent, Task: task})
		return created.GetName(), err
	}
	later := &timestamp.Timestamp{Seconds: time.Now().Unix() + 3600}
	_, err = create("go-grpc-retried", nil)
	must(err)
	run, err := create("go-grpc-run", later)
	must(err)
	deleted, err := create("go-grpc-deleted", later)
	must(err)
	_, err = create("go-grpc-run", later)
	shown, failed := client.GetTask(ctx, &pb.GetTaskRequest{Name: run})
	must(failed)
	results := map[string]interface{}{
		"url": shown.GetHttpRequest().GetUrl(), "again": status.Code(err),
		"printed": fmt.Sprint(err, status.Convert(err).Details())}
	must(client.DeleteTask(ctx, &pb.DeleteTaskRequest{Name: deleted}))
	purged, err := create("go-grpc-purged", later)
	must(err)
	_, err = client.RunTask(ctx, &pb.RunTaskRequest{Name: run})
	must(err)
	results["listed"] = false
	tasks := client.ListTasks(ctx, &pb.ListTasksRequest{Parent: parent})
	for {
		task, err := tasks.Next()
		if err == iterator.Done {
			break
		}
		must(err)
		results["listed"] = results["listed"] == true || task.GetName() == purged
	}
	must(json.NewEncoder(os.Stdout).Encode(results))
}
