#include "runtime/daemon/metrics_export.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/api/gate/measurements.h"
#include "runtime/daemon/otlp_json.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::daemon {
namespace {

using nlohmann::json;

TEST(OtlpJson, IsTheDocumentThatCollectorsTake) {
  MetricSet metrics;
  const double bounds[] = {1, 2.5};
  Distribution times;
  times.Record(0.5, bounds);
  times.Record(2.5, bounds);
  metrics.Histogram("server.time", "how long", bounds, {"method", "status"}, "ms")
      .Add(times, {"GET", int64_t{200}});
  metrics.Gauge("empty", "nothing");
  metrics.Counter("flags_total", "yes or no", {"success"}).Add(3, {true});
  metrics.Gauge("free_bytes", "room").Add(0.5);
  const std::string document =
      OtlpMetrics(metrics, {{{"service.name", "me \xff"}}, 5'000'000, 7'000'001});
  EXPECT_EQ(json::parse(document), json::parse(R"({"resourceMetrics": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "me \ufffd"}}]},
    "scopeMetrics": [{"scope": {"name": "opensandbox.server"}, "metrics": [
      {"name": "server.time", "description": "how long", "unit": "ms", "histogram": {
        "aggregationTemporality": 2,
        "dataPoints": [
          {"attributes": [{"key": "method", "value": {"stringValue": "GET"}},
                          {"key": "status", "value": {"intValue": "200"}}],
           "startTimeUnixNano": "5000000000", "timeUnixNano": "7000001000",
           "count": "2", "sum": 3.0, "min": 0.5, "max": 2.5,
           "bucketCounts": ["1", "1", "0"], "explicitBounds": [1.0, 2.5]}]}},
      {"name": "flags_total", "description": "yes or no", "unit": "1", "sum": {
        "aggregationTemporality": 2, "isMonotonic": true,
        "dataPoints": [
          {"attributes": [{"key": "success", "value": {"boolValue": true}}],
           "startTimeUnixNano": "5000000000", "timeUnixNano": "7000001000", "asDouble": 3.0}]}},
      {"name": "free_bytes", "description": "room", "unit": "By", "gauge": {
        "dataPoints": [
          {"attributes": [], "startTimeUnixNano": "5000000000", "timeUnixNano": "7000001000",
           "asDouble": 0.5}]}}]}]}]})"));
}

class MetricsExportTest : public testing::Test {
 protected:
  MetricsExportTest() {
    OtelSettings settings;
    settings.interval_us = 1'000'000;
    exporter = std::make_unique<MetricsExport>(
        loop, clock, settings, [this] { return Collect(); },
        [this](const OtelSettings&, std::string document) -> Result<int> {
          clock.Advance(takes_us);
          documents.push_back(json::parse(document));
          if (answer == 0) return Fail(Code::kUnavailable, "connection refused");
          return answer;
        });
    exporter->Start();
  }
  MetricSet Collect() const {
    MetricSet metrics;
    measurements->AddUpstream(&metrics);
    return metrics;
  }
  void Count() { measurements->AddClientEvent({7, true}, {"python", "1"}); }
  // Returns the count in document `i`.
  std::string CountOf(size_t i) {
    return documents.at(i).at(
        json::json_pointer("/resourceMetrics/0/scopeMetrics/0/metrics/0/"
                           "histogram/dataPoints/0/count"));
  }

  sandbox::FakeClock clock;
  sandbox::FakeLoop loop{clock};
  std::shared_ptr<api::Measurements> measurements = std::make_shared<api::Measurements>(clock);
  std::vector<json> documents;
  int answer = 200;  // 0: no answer
  int64_t takes_us = 0;
  std::unique_ptr<MetricsExport> exporter;
};

TEST_F(MetricsExportTest, EachIntervalHasAllThatCameBefore) {
  loop.Pass(5'000'000);
  EXPECT_TRUE(documents.empty());  // nothing to export
  Count();
  loop.Pass(1'000'000);
  Count();
  Count();
  loop.Pass(1'000'000);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(CountOf(0), "1");
  EXPECT_EQ(CountOf(1), "3");
}

TEST_F(MetricsExportTest, ADeadCollectorLosesNothingAndIsOneLine) {
  testing::internal::CaptureStderr();
  answer = 0;
  Count();
  loop.Pass(60'000'000);
  EXPECT_EQ(documents.size(), 60U);
  answer = 503;
  loop.Pass(3'000'000);
  answer = 200;
  Count();
  loop.Pass(2'000'000);
  EXPECT_EQ(CountOf(64), "2");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("cannot export"), log.rfind("cannot export")) << log;
  EXPECT_NE(log.find("connection refused"), std::string::npos) << log;
  EXPECT_EQ(log.find("works again"), log.rfind("works again")) << log;
  EXPECT_NE(log.find("works again"), std::string::npos) << log;
}

TEST_F(MetricsExportTest, WhoeverTakesLongIsAskedTheMoreSeldom) {
  takes_us = MetricsExport::kTimeoutUs;
  answer = 0;
  Count();
  loop.Pass(100'000'000);
  EXPECT_EQ(documents.size(), 4U);  // 5 s each, and 20 s between them
}

TEST_F(MetricsExportTest, TheLastIsSentAtOnce) {
  Count();
  int done = 0;
  exporter->Finish(200'000, [&done] { ++done; });
  loop.Run();
  EXPECT_EQ(done, 1);
  ASSERT_EQ(documents.size(), 1U);
  loop.Pass(10'000'000);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(documents.size(), 1U);
}

TEST_F(MetricsExportTest, NothingToSendAtTheEnd) {
  int done = 0;
  exporter->Finish(200'000, [&done] { ++done; });
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(documents.empty());
}

// A loop whose blocking work waits until the test releases it.
class StuckLoop final : public Loop {
 public:
  explicit StuckLoop(sandbox::FakeLoop& loop) : loop_(loop) {}
  Id Watch(int, uint32_t, FdCallback) override { return 0; }
  void Modify(Id, uint32_t) override {}
  void Unwatch(Id) override {}
  Id After(int64_t delay_us, Callback callback) override {
    return loop_.After(delay_us, std::move(callback));
  }
  void Cancel(Id id) override { loop_.Cancel(id); }
  void Post(Callback callback) override { loop_.Post(std::move(callback)); }
  void RunBlocking(Callback, Callback done) override { stuck.push_back(std::move(done)); }
  std::vector<Callback> stuck;

 private:
  sandbox::FakeLoop& loop_;
};

TEST_F(MetricsExportTest, OneAtATimeAndTheEndDoesNotWaitForIt) {
  StuckLoop stuck(loop);
  exporter = std::make_unique<MetricsExport>(stuck, clock, OtelSettings{.interval_us = 1'000'000},
                                             [this] { return Collect(); });
  exporter->Start();
  Count();
  loop.Pass(30'000'000);
  EXPECT_EQ(stuck.stuck.size(), 1U);
  bool done = false;
  exporter->Finish(200'000, [&done] { done = true; });
  loop.Pass(199'000);
  EXPECT_FALSE(done);
  loop.Pass(1000);
  EXPECT_TRUE(done);
  exporter.reset();
  stuck.stuck[0]();  // its callback finds no exporter
}

class OtelSettingsTest : public testing::Test {
 protected:
  OtelSettingsTest() { config.otel_enabled = true; }
  OtelSettings Settings() {
    auto found = FindOtelSettings(config, environment);
    EXPECT_TRUE(found && *found) << (found ? "none" : found.error().message());
    return found && *found ? **found : OtelSettings{};
  }
  std::string Refusal() {
    const auto found = FindOtelSettings(config, environment);
    EXPECT_FALSE(found);
    return found ? "" : found.error().message();
  }
  Config config;
  std::vector<std::string> environment;
};

TEST_F(OtelSettingsTest, WhereTo) {
  EXPECT_EQ(Settings().url, "http://localhost:4318/v1/metrics");
  environment = {"OTEL_EXPORTER_OTLP_ENDPOINT=http://base:1/otlp/"};
  EXPECT_EQ(Settings().url, "http://base:1/otlp/v1/metrics");
  environment.push_back("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=https://metrics/here");
  EXPECT_EQ(Settings().url, "https://metrics/here");
  config.otel_endpoint = "http://configured:4318/v1/metrics";
  EXPECT_EQ(Settings().url, config.otel_endpoint);
  config.otel_endpoint = "http://configured:4318/";
  EXPECT_EQ(Settings().url, "http://configured:4318/v1/metrics");
  config.otel_endpoint.clear();
  environment = {"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317"};
  EXPECT_NE(Refusal().find("OTEL_EXPORTER_OTLP_ENDPOINT"), std::string::npos);
}

TEST_F(OtelSettingsTest, WhoAndWithWhat) {
  config.otel_interval_ms = 2000;
  environment = {"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20one=, x-b = two words ,",
                 "OTEL_RESOURCE_ATTRIBUTES=deployment.environment=test,service.name=no,"
                 "host.name=named"};
  const OtelSettings settings = Settings();
  EXPECT_EQ(settings.headers.list.size(), 2U);
  EXPECT_EQ(settings.headers.Get("authorization"), "Bearer one=");
  EXPECT_EQ(settings.headers.Get("x-b"), "two words");
  EXPECT_EQ(settings.interval_us, 2'000'000);
  std::vector<std::string> names;
  for (const auto& [name, value] : settings.resource) {
    names.push_back(name);
    if (name == "service.name") {
      EXPECT_EQ(value, "opensandbox-server");
    } else if (name == "host.name") {
      EXPECT_EQ(value, "named");
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"deployment.environment", "host.name", "service.version",
                                      "service.name", "service.instance.id"}));
  environment.push_back("OTEL_EXPORTER_OTLP_METRICS_HEADERS=a=1");
  EXPECT_EQ(Settings().headers.list.size(), 1U);
  for (const char* bad : {"secret", "=secret", "a=%zzsecret", "a=secret%0d%0ab: c", "a b=secret"}) {
    environment = {"OTEL_EXPORTER_OTLP_HEADERS=" + std::string(bad)};
    const std::string said = Refusal();
    EXPECT_NE(said.find("OTEL_EXPORTER_OTLP_HEADERS"), std::string::npos) << bad;
    EXPECT_EQ(said.find("secret"), std::string::npos) << said;
  }
}

// A restart makes no new time series.
TEST_F(OtelSettingsTest, TheInstanceIsADataDirectoryOfAHost) {
  const auto id = [this] {
    std::vector<std::string> ids;
    for (const auto& [name, value] : Settings().resource) {
      if (name == "service.instance.id") ids.push_back(value);
    }
    return ids.size() == 1 ? ids.front() : "not one";
  };
  config.data_dir = "/var/lib/atoll";
  const std::string first = id();
  EXPECT_EQ(id(), first);
  ASSERT_EQ(first.size(), 36U);
  EXPECT_EQ(first[14], '8');
  EXPECT_NE(std::string("89ab").find(first[19]), std::string::npos);
  config.data_dir = "/srv/atoll";
  EXPECT_NE(id(), first);
  environment = {"OTEL_RESOURCE_ATTRIBUTES=service.instance.id=ours"};
  EXPECT_EQ(id(), "ours");
}

TEST_F(OtelSettingsTest, SwitchedOff) {
  const auto off = [this] {
    const auto found = FindOtelSettings(config, environment);
    EXPECT_TRUE(found);
    return found && !*found;
  };
  environment = {"OTEL_SDK_DISABLED=True"};
  EXPECT_TRUE(off());
  environment = {"OTEL_METRICS_EXPORTER=none"};
  EXPECT_TRUE(off());
  environment = {"OTEL_SDK_DISABLED=false", "OTEL_METRICS_EXPORTER=otlp"};
  EXPECT_FALSE(off());
  config.otel_enabled = false;
  EXPECT_TRUE(off());
}

}  // namespace
}  // namespace atl::daemon
