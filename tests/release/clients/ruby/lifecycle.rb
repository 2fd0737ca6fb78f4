# The lifecycle of tasks with Google's API client for Ruby, reported as JSON on standard output.
# Arguments: the server's root, and a token.
#
# The classes are what Google generated for the API, as far as they are needed here.

require 'json'
require 'google/apis/core/base_service'
require 'google/apis/core/hashable'
require 'google/apis/core/json_representation'
require 'google/apis/discovery_v1'
require 'signet/oauth_2/client'

class Task
  include Google::Apis::Core::Hashable
  include Google::Apis::Core::JsonObjectSupport

  FIELDS = {
    id: {}, queue_name: {as: 'queueName'}, payload_base64: {as: 'payloadBase64', base64: true},
    tag: {}, retry_count: {as: 'retry_count'},
    enqueue_timestamp: {as: 'enqueueTimestamp', numeric_string: true},
    lease_timestamp: {as: 'leaseTimestamp', numeric_string: true}
  }.freeze
  attr_accessor(*FIELDS.keys)

  def initialize(**fields)
    fields.each { |name, value| send("#{name}=", value) }
  end

  class Representation < Google::Apis::Core::JsonRepresentation
    FIELDS.each { |name, options| property(name, {as: name.to_s}.merge(options)) }
  end
end

class Tasks
  include Google::Apis::Core::Hashable
  include Google::Apis::Core::JsonObjectSupport

  attr_accessor :kind, :items

  class Representation < Google::Apis::Core::JsonRepresentation
    property :kind, as: 'kind'
    collection :items, as: 'items', class: Task, decorator: Task::Representation
  end
end

class Queue
  include Google::Apis::Core::Hashable
  include Google::Apis::Core::JsonObjectSupport

  attr_accessor :stats

  class Representation < Google::Apis::Core::JsonRepresentation
    property :stats, as: 'stats'
  end
end

class TaskQueue < Google::Apis::Core::BaseService
  def initialize(root)
    super("#{root}/", 'taskqueue/v1beta2/projects/')
    @batch_path = 'batch/taskqueue/v1beta2'
  end

  def call(verb, path, returns: nil, body: nil, taskqueue: 'pull-queue', task: nil, query: {}, &block)
    command = make_simple_command(verb, "{project}/taskqueues/{taskqueue}#{path}", nil)
    if body
      command.request_representation = Task::Representation
      command.request_object = body
    end
    if returns
      command.response_representation = returns::Representation
      command.response_class = returns
    end
    command.params.merge!('project' => 's~app', 'taskqueue' => taskqueue)
    command.params['task'] = task if task
    command.query.merge!(query)
    execute_or_queue_command(command, &block)
  end

  protected

  def apply_command_defaults(command) end
end

# Returns the response, or the error as the client reports it.
def answer
  yield
rescue Google::Apis::ClientError => e
  {code: e.status_code, message: e.message.sub(/\A\w+: /, '')}
end

def json_of(value)
  case value
  when Task then JSON.parse(value.to_json)
  when Tasks then {kind: value.kind, items: value.items&.map { |task| json_of(task) }}.compact
  when Queue then {stats: value.stats}
  when Array then value.map { |each| json_of(each) }
  else value
  end
end

def lifecycle(api)
  results = {}
  inserted = %w[red blue red].map do |tag|
    task = Task.new(queue_name: 'pull-queue', payload_base64: "work\xFF".b, tag: tag)
    api.call(:post, '/tasks', returns: Task, body: task)
  end
  results[:inserted] = inserted
  id = inserted[0].id
  results[:listed] = api.call(:get, '/tasks', returns: Tasks)
  results[:got] = api.call(:get, '/tasks/{task}', returns: Task, task: id)
  results[:queue] = api.call(:get, '', returns: Queue, query: {'getStats' => true})
  lease = lambda do |query|
    api.call(:post, '/tasks/lease', returns: Tasks, query: {'leaseSecs' => 30}.merge(query))
  end
  leased = results[:leased] = lease.call('numTasks' => 1)
  results[:leasedByTag] = lease.call('numTasks' => 9, 'groupByTag' => true, 'tag' => 'red')
  change = lambda do |verb, body|
    query = {'newLeaseSeconds' => 60}
    api.call(verb, '/tasks/{task}', returns: Task, body: body, task: id, query: query)
  end
  results[:updated] = change.call(:post, leased.items[0])
  results[:stale] = answer { change.call(:post, leased.items[0]) }
  results[:patched] = change.call(:patch, Task.new(queue_name: 'pull-queue'))
  results[:deleted] = []
  delete = ->(on, name, &block) { on.call(:delete, '/tasks/{task}', task: name, &block) }
  api.batch do |batch|
    inserted.each do |task|
      delete.call(batch, task.id) { |_, error| results[:deleted] << error&.message }
    end
  end
  results[:gone] = answer { delete.call(api, id) }
  results[:unknown] = answer { api.call(:get, '/tasks', returns: Tasks, taskqueue: 'nowhere') }
  results[:forbidden] = answer do
    body = Task.new(queue_name: 'read-only', payload_base64: '')
    api.call(:post, '/tasks', returns: Task, body: body, taskqueue: 'read-only')
  end
  results[:empty] = lease.call('numTasks' => 1)
  results
end

root, token = ARGV
discovery = Google::Apis::DiscoveryV1::DiscoveryService.new
discovery.root_url = "#{root}/"
api = TaskQueue.new(root)
api.authorization = Signet::OAuth2::Client.new(access_token: token)
results = lifecycle(api).transform_values { |value| json_of(value) }
results[:methods] = discovery.get_rest_api('taskqueue', 'v1beta2').resources['tasks'].api_methods.keys
puts JSON.generate(results)
