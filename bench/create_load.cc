// The measurements with many clients at once, each with a thread and a connection of its own.
#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <thread>

#include "bench/create_phases.h"

namespace atl::bench {
namespace {

struct Client {
  explicit Client(SandboxApi connected) : api(std::move(connected)) {}
  SandboxApi api;
  Sandbox sandbox;
  Status result;
  int64_t created_us = 0, first_us = 0;
  int64_t done = 0;  // sandboxes that lived and died
};

Result<std::vector<std::unique_ptr<Client>>> Connect(const OwnDaemon& daemon, int count) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < count; ++i) {
    ATOLL_ASSIGN(SandboxApi api, daemon.Connect());
    // A request each: the daemon has accepted the connection.
    ATOLL_TRY(api.Metrics());
    clients.push_back(std::make_unique<Client>(std::move(api)));
  }
  return clients;
}

// Runs `body` for all clients at once; when the first one began.
int64_t RunTogether(const std::vector<std::unique_ptr<Client>>& clients,
                    const std::function<void(Client&)>& body) {
  std::latch ready(static_cast<std::ptrdiff_t>(clients.size()));
  std::latch go(1);
  std::vector<std::thread> threads;
  for (const auto& client : clients) {
    threads.emplace_back([&, raw = client.get()] {
      ready.count_down();
      go.wait();
      body(*raw);
    });
  }
  ready.wait();
  const int64_t start = NowMicros();
  go.count_down();
  for (std::thread& thread : threads) thread.join();
  return start;
}

Status CreateAndEcho(Client& client) {
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(client.sandbox, client.api.Create(kBusyboxImage));
  client.created_us = NowMicros() - start;
  ATOLL_TRY(client.api.FindExecd(&client.sandbox));
  const int64_t before = NowMicros() - start;
  CommandTimes command;
  ATOLL_TRY(client.api.Echo(client.sandbox, &command));
  client.first_us = before + static_cast<int64_t>(command.first.p50() * 1000);
  return {};
}

Status LiveAndDie(Client& client) {
  ATOLL_TRY(CreateAndEcho(client));
  ATOLL_TRY(client.api.Delete(client.sandbox));
  ++client.done;
  return {};
}

}  // namespace

Result<Burst> MeasureBurst(const OwnDaemon& daemon, SandboxApi& api, int size, int rounds) {
  Burst burst;
  burst.size = size;
  for (int round = 0; round < rounds; ++round) {
    ATOLL_ASSIGN(const auto clients, Connect(daemon, size));
    ATOLL_TRY(api.AwaitQuiet());
    // Until the kernel has taken down what the round before has left.
    Rest(500);
    const int64_t start = RunTogether(clients, [](Client& c) { c.result = CreateAndEcho(c); });
    burst.wall.AddSince(start);
    for (const auto& client : clients) {
      if (!client->result) {
        if (burst.failed++ == 0) burst.error = client->result.error().message();
      } else {
        burst.created.AddMicros(client->created_us);
        burst.first.AddMicros(client->first_us);
      }
      if (!client->sandbox.id.empty()) ATOLL_TRY(api.Delete(client->sandbox));
    }
  }
  return burst;
}

Result<Throughput> MeasureThroughput(const OwnDaemon& daemon, SandboxApi& api, int count,
                                     int seconds) {
  ATOLL_ASSIGN(const auto clients, Connect(daemon, count));
  ATOLL_TRY(api.AwaitQuiet());
  const int64_t end = NowMicros() + int64_t{seconds} * 1'000'000;
  const int64_t start = RunTogether(clients, [end](Client& client) {
    while (client.result && NowMicros() < end) client.result = LiveAndDie(client);
  });
  const int64_t took = NowMicros() - start;
  Throughput throughput{count, 0};
  for (const auto& client : clients) {
    if (!client->result) return Fail(std::move(client->result).error());
    throughput.per_second += static_cast<double>(client->done);
  }
  throughput.per_second /= static_cast<double>(took) / 1e6;
  return throughput;
}

}  // namespace atl::bench
