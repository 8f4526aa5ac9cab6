#include "runtime/api/gate/measurements.h"

#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

HistogramKind SmallKind() {
  return {"small", "of a test", {10, 20}, {"who", "what"}, 4, 0, 2};
}

using Values = std::vector<AttributeValue>;

TEST(Histogram, CountsBelowTheFirstBoundThatIsNotSmaller) {
  Histogram histogram(SmallKind());
  for (const double ms : {10.0, 0.0, 10.5, 20.0, 20.001, 1e9}) {
    histogram.Record(ms, {std::string("a"), int64_t{1}});
  }
  ASSERT_EQ(histogram.series().size(), 1U);
  const auto& [values, series] = *histogram.series().begin();
  EXPECT_EQ(values, (Values{std::string("a"), int64_t{1}}));
  EXPECT_EQ(series.buckets, (std::vector<uint64_t>{2, 2, 2}));
  EXPECT_EQ(series.count, 6U);
  EXPECT_DOUBLE_EQ(series.sum, 1e9 + 60.501);
  EXPECT_EQ(series.min, 0);
  EXPECT_EQ(series.max, 1e9);
}

TEST(Histogram, NobodyMakesMoreSeriesThanThereMayBe) {
  Histogram histogram(SmallKind());
  for (int64_t i = 0; i < 100; ++i) histogram.Record(1, {std::string("greedy"), i});
  EXPECT_EQ(histogram.series().size(), 2U);
  EXPECT_EQ(histogram.overflow().count, 98U);
  EXPECT_EQ(histogram.overflow().buckets, (std::vector<uint64_t>{98, 0, 0}));
  // Other labels still get series of their own …
  histogram.Record(1, {std::string("late"), int64_t{1}});
  histogram.Record(1, {std::string("later"), int64_t{1}});
  EXPECT_EQ(histogram.series().size(), 4U);
  EXPECT_EQ(histogram.overflow().count, 98U);
  // … while there is room. Existing series keep counting.
  histogram.Record(1, {std::string("last"), int64_t{1}});
  histogram.Record(1, {std::string("greedy"), int64_t{0}});
  EXPECT_EQ(histogram.series().size(), 4U);
  EXPECT_EQ(histogram.overflow().count, 99U);
  EXPECT_EQ(histogram.series().at({std::string("greedy"), int64_t{0}}).count, 2U);
}

class FakeStream final : public http::ResponseStream {
 public:
  void Write(std::string) override {}
  void Finish() override { finished = true; }
  size_t backlog() const override { return 7; }
  bool closed() const override { return false; }
  void OnEvents(std::function<void()>, std::function<void()>) override {}
  bool finished = false;
};

class Streaming final : public http::Exchange {
 public:
  const http::Request& request() const override { return head; }
  void ReadBody(size_t, std::function<void(Result<std::string>)>) override {}
  void SaveBody(int, uint64_t, std::function<void(Result<uint64_t>)>) override {}
  void Respond(http::Response) override {}
  std::shared_ptr<http::ResponseStream> Stream(http::Response) override { return stream; }
  void Forward(http::Upstream) override {}
  http::Request head;
  std::shared_ptr<FakeStream> stream = std::make_shared<FakeStream>();
};

class MeasureTest : public testing::Test {
 protected:
  MeasureTest() { fake->head.method = "GET"; }
  std::shared_ptr<http::Exchange> Measure(std::shared_ptr<http::Exchange> exchange) {
    return Measurements::Measure(measurements, std::move(exchange), "/route");
  }
  // Returns "GET /route 200 <milliseconds>" for the one request that has been counted.
  std::string Counted() {
    const auto& series = measurements->requests().series();
    if (series.empty()) return "none";
    EXPECT_EQ(series.size(), 1U);
    const auto& [values, one] = *series.begin();
    EXPECT_EQ(one.count, 1U);
    return std::get<std::string>(values[0]) + " " + std::get<std::string>(values[1]) + " " +
           std::to_string(std::get<int64_t>(values[2])) + " " +
           std::to_string(static_cast<int>(one.sum));
  }

  sandbox::FakeClock clock;
  std::shared_ptr<Measurements> measurements = std::make_shared<Measurements>(clock);
  std::shared_ptr<FakeExchange> fake = std::make_shared<FakeExchange>();
};

TEST_F(MeasureTest, AnAnswer) {
  const auto exchange = Measure(fake);
  clock.Advance(12'000);
  EXPECT_EQ(Counted(), "none");
  exchange->Respond({.status = 404, .headers = {}, .body = "x"});
  EXPECT_EQ(Counted(), "GET /route 404 12");
  EXPECT_EQ(fake->response->status, 404);
  clock.Advance(12'000);
  exchange->Respond({});
  EXPECT_EQ(Counted(), "GET /route 404 12");
}

TEST_F(MeasureTest, AMethodThatNobodyKnows) {
  fake->head.method = "BREW";
  Measure(fake)->Respond({});
  EXPECT_EQ(Counted(), "OTHER /route 200 0");
}

TEST_F(MeasureTest, NoAnswer) {
  Measure(fake).reset();
  EXPECT_EQ(Counted(), "GET /route 500 0");
}

TEST_F(MeasureTest, AStreamCountsWhenItIsOver) {
  const auto streaming = std::make_shared<Streaming>();
  streaming->head.method = "POST";
  for (const bool finish : {true, false}) {
    measurements = std::make_shared<Measurements>(clock);
    auto exchange = Measure(streaming);
    auto stream = exchange->Stream({.status = 201, .headers = {}, .body = ""});
    exchange.reset();
    EXPECT_EQ(stream->backlog(), 7U);
    clock.Advance(3000);
    EXPECT_EQ(Counted(), "none");
    if (finish) stream->Finish();
    if (!finish) stream.reset();
    EXPECT_EQ(Counted(), "POST /route 201 3");
  }
  EXPECT_TRUE(streaming->stream->finished);
}

TEST_F(MeasureTest, WhatComesFromASandboxCountsWhenItIsOver) {
  http::Upstream upstream;
  const auto held = std::make_shared<int>(1);
  upstream.held = held;
  int edited = 0;
  upstream.edit_response = [&edited](int status, http::Headers*) { edited = status; };
  upstream.on_error = [](const Error&) { return http::Response{502, {}, ""}; };
  auto exchange = Measure(fake);
  exchange->Forward(std::move(upstream));
  exchange.reset();
  EXPECT_EQ(held.use_count(), 2);
  http::Headers fields;
  fake->upstream->edit_response(204, &fields);
  EXPECT_EQ(edited, 204);
  fake->upstream->edit_response(103, &fields);
  clock.Advance(5000);
  EXPECT_EQ(Counted(), "none");
  fake->upstream.reset();
  EXPECT_EQ(Counted(), "GET /route 204 5");
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(MeasureTest, ASandboxThatCannotBeReached) {
  http::Upstream upstream;
  upstream.on_error = [](const Error&) { return http::Response{502, {}, ""}; };
  Measure(fake)->Forward(std::move(upstream));
  EXPECT_EQ(fake->upstream->on_error(Error(Code::kUnavailable, "x")).status, 502);
  fake->upstream.reset();
  EXPECT_EQ(Counted(), "GET /route 502 0");
}

TEST_F(MeasureTest, ATunnelDoesNotCount) {
  Measure(fake)->Forward({});
  http::Headers fields;
  fake->upstream->edit_response(101, &fields);
  fake->upstream.reset();
  EXPECT_EQ(Counted(), "none");
}

TEST_F(MeasureTest, AnExchangeMayOutliveWhoeverMadeIt) {
  auto exchange = Measure(fake);
  measurements.reset();
  exchange->Respond({});
}

TEST(ClientEvent, WhoseWordItIs) {
  const auto sdk = [](std::string_view agent) {
    const ClientSdk found = SdkOf(agent);
    return found.language + " " + found.version;
  };
  EXPECT_EQ(sdk("OpenSandbox-Python-SDK/1.1.1"), "python 1.1.1");
  EXPECT_EQ(sdk("x opensandbox-cli OPENSANDBOX-Go-sdk/0.1.0-Rc1 (linux)"), "go 0.1.0-Rc1");
  for (const std::string agent :
       {"", "curl/8", "OpenSandbox--SDK/1", "OpenSandbox-Py_thon-SDK/1", "OpenSandbox-Python-SDK/",
        "OpenSandbox-Python-SDK/ 1", "OpenSandbox-Python-SDK/\xff", "OpenSandbox-"}) {
    EXPECT_EQ(sdk(agent), "unknown unknown") << agent;
  }
  EXPECT_EQ(sdk("OpenSandbox-Python-SDK/" + std::string(65, '1')), "unknown unknown");
  EXPECT_EQ(sdk("OpenSandbox-" + std::string(33, 'a') + "-SDK/1"), "unknown unknown");
}

TEST_F(ApiTest, ClientsEventsAreCounted) {
  const std::vector<http::Header> headers = {{kKeyHeader, kKey},
                                             {"User-Agent", "OpenSandbox-JS-SDK/2"}};
  const std::string good =
      R"({"eventType": "sandbox.create", "createDurationMs": 250, "success": false})";
  EXPECT_EQ(Send("POST", "/v1/metrics/events", good, headers)->response->status, 204);
  EXPECT_EQ(Send("POST", "/v1/metrics/events", good, {})->response->status, 401);
  EXPECT_EQ(Send("POST", "/v1/metrics/events", "{}", headers)->response->status, 422);
  ASSERT_EQ(measurements->creates().series().size(), 1U);
  const auto& [values, series] = *measurements->creates().series().begin();
  EXPECT_EQ(values, (Values{std::string("js"), std::string("2"), false}));
  EXPECT_EQ(series.count, 1U);
  EXPECT_EQ(series.buckets[1], 1U);
}

TEST_F(ApiTest, ARequestIsOneOfItsRoute) {
  const auto route = [this](const char* method, const char* target, const char* host = "x",
                            const char* ingress = nullptr) {
    http::Request request;
    request.method = method;
    request.target = target;
    request.headers.Add("Host", host);
    if (ingress != nullptr) request.headers.Add(kIngressHeader, ingress);
    return api->TemplateOf(request);
  };
  EXPECT_EQ(route("GET", "/health"), "/health");
  EXPECT_EQ(route("POST", "/v1/sandboxes?x=1"), "/v1/sandboxes");
  EXPECT_EQ(route("GET", "/sandboxes/abc/endpoints/80"),
            "/sandboxes/{sandbox_id}/endpoints/{port}");
  EXPECT_EQ(route("GET", "/v1/images/docker.io/x"), "/v1/images/{name:path}");
  EXPECT_EQ(route("TRACE", "/v1/sandboxes"), "/v1/sandboxes");
  for (const char* target : {"/", "/nope", "/v1", "/v1/nope", "/v1/sandboxes/", "/v2/sandboxes"}) {
    EXPECT_EQ(route("GET", target), "unknown") << target;
  }
  EXPECT_EQ(route("GET", "/v1/sandboxes/abc/proxy/80?x"),
            "/v1/sandboxes/{sandbox_id}/proxy/{port}");
  EXPECT_EQ(route("GET", "/sandboxes/abc/proxy/80/secret"),
            "/sandboxes/{sandbox_id}/proxy/{port}/{full_path:path}");
  const std::string execd = "/sandboxes/{sandbox_id}/proxy/44772";
  for (const auto& [path, pattern] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/command", "/command"},
           {"/command/status/7?x=/y", "/command/status/{id}"},
           {"/command/7/logs", "/command/{id}/logs"},
           {"/session/abc/run", "/session/{id}/run"},
           {"/files/download?path=/etc", "/files/download"},
           {"/v1/filesystem/0/0/files/info", "/v1/filesystem/{uid}/{gid}/files/info"},
           {"/v1/isolated/session/x/runs/1/logs", "/v1/isolated/session/{id}/runs/{id}/logs"},
           {"/forward/80", "/forward/{port}"}}) {
    EXPECT_EQ(route("POST", ("/v1/sandboxes/abc/proxy/44772" + std::string(path)).c_str()),
              "/v1" + execd + pattern);
  }
  for (const char* path : {"/secret", "/command/", "/command//logs", "/session//run", "//command",
                           "/proxy/80/command", "/command/7/logs/8"}) {
    EXPECT_EQ(route("GET", ("/sandboxes/abc/proxy/44772" + std::string(path)).c_str()),
              "/sandboxes/{sandbox_id}/proxy/{port}/{full_path:path}")
        << path;
  }
  const char* id = "0a1b2c3d-0000-4000-8000-0123456789ab";
  EXPECT_EQ(route("GET", ("/" + std::string(id) + "/44772/ping").c_str()), execd + "/ping");
  EXPECT_EQ(route("GET", ("/" + std::string(id) + "/80/secret").c_str()),
            "/{sandbox_id}/{port}/{full_path:path}");
  EXPECT_EQ(route("GET", "/secret", "x", (std::string(id) + "-80").c_str()), "/{full_path:path}");
  EXPECT_EQ(route("GET", "/secret", (std::string(id) + "-80.localhost").c_str()),
            "/{full_path:path}");
}

}  // namespace
}  // namespace atl::api
