# A batch of Cloud Tasks calls with Google's API client for Ruby, reported as JSON.
# Argument: the server's root.

require 'json'
require 'google/apis/cloudtasks_v2beta2'

include Google::Apis::CloudtasksV2beta2

api = CloudTasksService.new
api.root_url = "#{ARGV[0]}/"
queue = 'projects/app/locations/us-central1/queues/pull-queue'
results = {created: [], errors: []}
api.batch do |batch|
  %w[red blue].each do |tag|
    body = CreateTaskRequest.new(task: Task.new(pull_message: PullMessage.new(tag: tag)))
    batch.create_task(queue, body) { |task, _| results[:created] << task }
  end
  batch.get_project_location_queue_task("#{queue}/tasks/missing") do |_, error|
    results[:errors] << error.status_code
  end
end
api.batch do |batch|
  results[:created].each { |task| batch.delete_project_location_queue_task(task.name) }
end
results[:created].map! { |task| task.pull_message.tag }
puts JSON.generate(results)
