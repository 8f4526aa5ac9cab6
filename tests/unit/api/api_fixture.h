// The API as a whole, in front of a real Sandboxes whose spawner, network and images are fakes.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/api/routes/api.h"
#include "runtime/sandbox/metrics.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::api {

using nlohmann::json;

inline const tenants::Caller kCaller;
inline constexpr char kKey[] = "test-api-key";

// Records the API's answer.
class FakeExchange final : public http::Exchange {
 public:
  const http::Request& request() const override { return head; }
  void SetAuthority(std::string given) override { authority = std::move(given); }
  void ReadBody(size_t limit, std::function<void(Result<std::string>)> done) override {
    if (body.size() > limit) return done(Fail(Code::kResourceExhausted, "too large"));
    done(body);
  }
  void SaveBody(int, uint64_t, std::function<void(Result<uint64_t>)> done) override {
    done(Fail(Error(Code::kResourceExhausted, "disk full", ENOSPC)));
  }
  void Respond(http::Response r) override { response = std::move(r); }
  std::shared_ptr<http::ResponseStream> Stream(http::Response) override { return nullptr; }
  void Forward(http::Upstream u) override { upstream = std::move(u); }

  http::Request head;
  std::string body;
  std::string authority;
  std::optional<http::Response> response;
  std::optional<http::Upstream> upstream;
};

class ApiTest : public testing::Test {
 protected:
  ApiTest() {
    char name[] = "/tmp/api_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    room = std::move(*sandbox::Store::Open(directory + "/atoll.db"));
    snapshot_store = std::move(*sandbox::SnapshotStore::Open(directory + "/atoll.db"));
    pool_store = std::move(*sandbox::PoolStore::Open(directory + "/atoll.db"));
    template_store = std::move(*sandbox::TemplateStore::Open(directory + "/atoll.db"));
    snapshots = std::move(*sandbox::Snapshots::Open(clock, spawner, images, *snapshot_store, {}));
    sandbox::Sandboxes::Settings config;
    config.socket_directory = directory;
    config.check.limits_available.keys = {"memory", "pids", "cpu"};
    sandbox::SlotPool::Config pool_config;
    pool_config.socket_directory = directory;
    pool = std::make_unique<sandbox::SlotPool>(loop, clock, spawner, network, pool_config);
    sandboxes = std::make_unique<sandbox::Sandboxes>(
        sandbox::Sandboxes::Parts{loop, clock, spawner, network, images, *store, *pool, admission,
                                  imports, puller, *volumes, objects, *snapshots, *pool_store,
                                  *template_store, logs, *history, health, tenants},
        config);
    EXPECT_TRUE(sandboxes->reconciler.Start({}));
    loop.Pass(100'000);
    Serve({.api_key = kKey, .endpoint = {.address = "127.0.0.1:8080"}});
  }
  ~ApiTest() override { std::filesystem::remove_all(directory); }

  void Serve(ApiConfig config) {
    Api::Parts parts{loop,
                     *sandboxes,
                     imports,
                     *volumes,
                     *snapshots,
                     logs,
                     *history,
                     network,
                     images,
                     admission,
                     *pool,
                     health,
                     *measurements,
                     tenants,
                     keys_of_tenants.get(),
                     [this] { return Collect(); },
                     [](const auto& done) { done(Fail(Code::kFailedPrecondition, "no store")); }};
    parts.auditor = auditor;
    api = std::make_unique<Api>(std::move(config), std::move(parts), [this] { quit = true; });
  }

  MetricSet Collect() {
    MetricSet metrics;
    sandbox::AddMetrics(*sandboxes, *snapshots, admission, *pool, network, images, health, nullptr,
                        nullptr, &metrics);
    api->AddMetrics(&metrics);
    return metrics;
  }

  std::shared_ptr<FakeExchange> Send(const std::string& method, const std::string& target,
                                     const std::string& body = "",
                                     std::vector<http::Header> headers = {{kKeyHeader, kKey}}) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->head.method = method;
    exchange->head.target = target;
    exchange->head.headers.list = std::move(headers);
    exchange->head.headers.Add("Host", "atoll.example:81");
    exchange->head.peer = "127.0.0.1:4";
    exchange->body = body;
    api->Handle(exchange);
    loop.Run();
    if (exchange->response) {
      EXPECT_FALSE(exchange->response->headers.Get("X-Request-ID").empty());
    }
    return exchange;
  }
  int Status(const std::string& method, const std::string& target, const std::string& body = "") {
    const auto exchange = Send(method, target, body);
    return exchange->response ? exchange->response->status : 0;
  }
  json Get(const std::string& target) {
    const auto exchange = Send("GET", target);
    EXPECT_EQ(exchange->response->status, 200) << target;
    return json::parse(exchange->response->body);
  }
  std::string CodeOf(const std::shared_ptr<FakeExchange>& exchange) {
    return json::parse(exchange->response->body).at("code");
  }
  std::string Create(json extra = json::object()) {
    json body = {{"image", {{"uri", "busybox"}}},
                 {"entrypoint", {"tail", "-f", "/dev/null"}},
                 {"resourceLimits", json::object()}};
    body.update(extra);
    const auto exchange = Send("POST", "/v1/sandboxes", body.dump());
    EXPECT_FALSE(exchange->response);
    spawner.AnswerBuild();
    EXPECT_TRUE(exchange->response);
    EXPECT_EQ(exchange->response->status, 202);
    created = json::parse(exchange->response->body);
    return created.at("id");
  }

  static constexpr char kKeyHeader[] = "OPEN-SANDBOX-API-KEY";
  std::string directory;
  sandbox::FakeClock clock;
  std::shared_ptr<Measurements> measurements = std::make_shared<Measurements>(clock);
  sandbox::FakeLoop loop{clock};
  sandbox::FakeSpawner spawner{loop};
  sandbox::FakeNetwork network;
  sandbox::FakeImages images;
  Health health;
  tenants::TenantTable tenants;
  std::unique_ptr<sandbox::Store> store = std::move(*sandbox::Store::Open(":memory:"));
  std::unique_ptr<sandbox::VolumeStore> volume_store =
      std::move(*sandbox::VolumeStore::Open(":memory:"));
  std::unique_ptr<sandbox::SlotPool> pool;
  sandbox::Admission admission{2, 1024};
  sandbox::FakePuller puller;
  sandbox::PendingImports imports{loop, 1024};
  sandbox::ObjectVolumes objects{
      spawner, {*wire::ParseObjectStore("store https://s3.example bucket=data credentials=/k")}};
  std::unique_ptr<sandbox::Volumes> volumes =
      std::move(*sandbox::Volumes::Open(loop, clock, spawner, *volume_store, {}));
  std::unique_ptr<sandbox::Store> room;  // owns atoll.db, the file that snapshot_store also uses
  std::unique_ptr<sandbox::SnapshotStore> snapshot_store;
  std::unique_ptr<sandbox::PoolStore> pool_store;
  std::unique_ptr<sandbox::TemplateStore> template_store;
  std::unique_ptr<sandbox::Snapshots> snapshots;
  sandbox::EntrypointLogs logs{loop, clock, {}};
  std::unique_ptr<sandbox::History> history = std::move(*sandbox::History::Open(store->db(), loop));
  std::unique_ptr<sandbox::Sandboxes> sandboxes;
  std::unique_ptr<tenants::Directory> keys_of_tenants;  // null: no tenants
  std::shared_ptr<Auditor> auditor;                     // null: no audit log
  std::unique_ptr<Api> api;
  json created;
  bool quit = false;
};

}  // namespace atl::api
