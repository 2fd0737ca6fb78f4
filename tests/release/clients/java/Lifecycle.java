// The lifecycle of tasks with Google's API client for Java, reported as JSON on standard output.
// Arguments: the server's root, and a key file.

import com.google.api.client.googleapis.auth.oauth2.GoogleCredential;
import com.google.api.client.googleapis.batch.BatchRequest;
import com.google.api.client.googleapis.batch.json.JsonBatchCallback;
import com.google.api.client.googleapis.json.GoogleJsonError;
import com.google.api.client.googleapis.json.GoogleJsonResponseException;
import com.google.api.client.googleapis.services.json.AbstractGoogleJsonClient;
import com.google.api.client.googleapis.services.json.AbstractGoogleJsonClientRequest;
import com.google.api.client.http.GenericUrl;
import com.google.api.client.http.HttpHeaders;
import com.google.api.client.http.HttpRequestInitializer;
import com.google.api.client.http.HttpTransport;
import com.google.api.client.http.javanet.NetHttpTransport;
import com.google.api.client.json.GenericJson;
import com.google.api.client.json.JsonFactory;
import com.google.api.client.json.gson.GsonFactory;
import com.google.api.client.util.Key;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Does what the classes do that Google generated for the API, on the library they stand on. */
@SuppressWarnings({"deprecation", "unchecked"}) // the credential of that time, and JSON's types
public class Lifecycle {
  private static final JsonFactory JSON = GsonFactory.getDefaultInstance();
  private static final HttpTransport TRANSPORT = new NetHttpTransport();
  private static final String SCOPE = "https://www.googleapis.com/auth/taskqueue";

  static class TaskQueue extends AbstractGoogleJsonClient {
    TaskQueue(String root, HttpRequestInitializer initializer) {
      super(new Builder(root, initializer));
    }

    static class Builder extends AbstractGoogleJsonClient.Builder {
      Builder(String root, HttpRequestInitializer initializer) {
        super(TRANSPORT, JSON, root + "/", "taskqueue/v1beta2/projects/", initializer, false);
        setApplicationName("lifecycle");
      }

      @Override
      public TaskQueue build() {
        throw new UnsupportedOperationException();
      }
    }
  }

  static class Call<T> extends AbstractGoogleJsonClientRequest<T> {
    @Key String project = "s~app";
    @Key String taskqueue = "pull-queue";
    @Key String task;

    Call(TaskQueue api, String verb, String path, Object content, Class<T> answer) {
      super(api, verb, "{project}/taskqueues/{taskqueue}" + path, content, answer);
    }

    @Override
    public Call<T> set(String name, Object value) {
      return (Call<T>) super.set(name, value);
    }
  }

  private final TaskQueue api;
  private final HttpRequestInitializer credential;

  Lifecycle(String root, HttpRequestInitializer credential) {
    this.api = new TaskQueue(root, credential);
    this.credential = credential;
  }

  private Call<GenericJson> call(String verb, String path, Object content) {
    return new Call<>(api, verb, path, content, GenericJson.class);
  }

  private Call<Void> delete(Object id) {
    return new Call<>(api, "DELETE", "/tasks/{task}", null, Void.class).set("task", id);
  }

  private Call<GenericJson> lease(int numTasks) {
    return call("POST", "/tasks/lease", null).set("numTasks", numTasks).set("leaseSecs", 30);
  }

  private Call<GenericJson> update(String id, GenericJson held) {
    return call("POST", "/tasks/{task}", held).set("task", id).set("newLeaseSeconds", 60);
  }

  private static GenericJson task(String tag) {
    GenericJson task = new GenericJson().set("queueName", "pull-queue");
    return task.set("payloadBase64", "d29yaw==").set("tag", tag);
  }

  /** Returns the response, or the error as the client reports it. */
  private static Object answer(Call<?> call) throws IOException {
    try {
      return call.execute();
    } catch (GoogleJsonResponseException refusal) {
      return refusal(refusal.getDetails());
    }
  }

  private static Object refusal(GoogleJsonError error) {
    Map<String, Object> results = new LinkedHashMap<>();
    results.put("code", error.getCode());
    results.put("message", error.getMessage());
    return results;
  }

  private List<Object> together(String root, List<Call<Void>> calls) throws IOException {
    BatchRequest batch = new BatchRequest(TRANSPORT, credential);
    batch.setBatchUrl(new GenericUrl(root + "/batch/taskqueue/v1beta2"));
    List<Object> answers = new ArrayList<>();
    for (Call<Void> call : calls) {
      call.queue(
          batch,
          new JsonBatchCallback<Void>() {
            @Override
            public void onSuccess(Void answer, HttpHeaders headers) {
              answers.add("");
            }

            @Override
            public void onFailure(GoogleJsonError error, HttpHeaders headers) {
              answers.add(refusal(error));
            }
          });
    }
    batch.execute();
    return answers;
  }

  private Map<String, Object> lifecycle(String root) throws IOException {
    Map<String, Object> results = new LinkedHashMap<>();
    List<GenericJson> inserted = new ArrayList<>();
    for (String tag : List.of("red", "blue", "red")) {
      inserted.add(call("POST", "/tasks", task(tag)).execute());
    }
    results.put("inserted", inserted);
    String id = (String) inserted.get(0).get("id");
    results.put("listed", answer(call("GET", "/tasks", null)));
    results.put("got", answer(call("GET", "/tasks/{task}", null).set("task", id)));
    results.put("queue", answer(call("GET", "", null).set("getStats", true)));
    GenericJson leased = lease(1).execute();
    results.put("leased", leased);
    results.put("leasedByTag", answer(lease(9).set("groupByTag", true).set("tag", "red")));
    Map<String, Object> first = ((List<Map<String, Object>>) leased.get("items")).get(0);
    GenericJson held = new GenericJson();
    held.putAll(first);
    results.put("updated", answer(update(id, held)));
    results.put("stale", answer(update(id, held)));
    GenericJson named = new GenericJson().set("queueName", "pull-queue");
    Call<GenericJson> patch = call("PATCH", "/tasks/{task}", named);
    results.put("patched", answer(patch.set("task", id).set("newLeaseSeconds", 90)));
    delete(id).execute();
    List<Call<Void>> deletions = new ArrayList<>();
    for (GenericJson task : inserted) {
      deletions.add(delete(task.get("id")));
    }
    results.put("deleted", together(root, deletions));
    results.put("unknown", answer(call("GET", "/tasks", null).set("taskqueue", "nowhere")));
    Call<GenericJson> forbidden = call("POST", "/tasks", new GenericJson().set("payloadBase64", ""));
    results.put("forbidden", answer(forbidden.set("taskqueue", "read-only")));
    results.put("empty", answer(lease(1)));
    return results;
  }

  public static void main(String[] arguments) throws IOException {
    GoogleCredential credential;
    try (FileInputStream key = new FileInputStream(arguments[1])) {
      credential = GoogleCredential.fromStream(key, TRANSPORT, JSON).createScoped(List.of(SCOPE));
    }
    Lifecycle client = new Lifecycle(arguments[0], credential);
    System.out.println(JSON.toString(client.lifecycle(arguments[0])));
  }
}
