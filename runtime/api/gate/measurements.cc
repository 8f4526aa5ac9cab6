#include "runtime/api/gate/measurements.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace atl::api {

// One request. The destructor counts it.
class RequestTime {
 public:
  RequestTime(std::shared_ptr<Measurements> measurements, const http::Request& request,
              std::string route_template)
      : measurements_(std::move(measurements)),
        method_(MethodName(request.method)),
        route_(std::move(route_template)),
        began_us_(measurements_->clock_.BootMicros()) {}
  RequestTime(const RequestTime&) = delete;
  RequestTime& operator=(const RequestTime&) = delete;
  ~RequestTime() {
    if (status == 101) return;
    const auto took = static_cast<double>(measurements_->clock_.BootMicros() - began_us_);
    measurements_->requests_.Record(took / 1000,
                                    {std::string(method_), std::move(route_), int64_t{status}});
  }

  int status = 500;  // status of a request that nobody answers

 private:
  // Returns the method if it is a known one. Clients choose the method freely, so others share one
  // name.
  static std::string_view MethodName(std::string_view method) {
    static constexpr std::array<std::string_view, 9> kMethods = {
        "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"};
    const auto* found = std::find(kMethods.begin(), kMethods.end(), method);
    return found == kMethods.end() ? "OTHER" : *found;
  }

  const std::shared_ptr<Measurements> measurements_;
  const std::string_view method_;
  std::string route_;
  const int64_t began_us_;
};

namespace {

class MeasuredStream final : public http::ResponseStream {
 public:
  MeasuredStream(std::shared_ptr<http::ResponseStream> stream, std::shared_ptr<RequestTime> time)
      : stream_(std::move(stream)), time_(std::move(time)) {}

  void Write(std::string bytes) override { stream_->Write(std::move(bytes)); }
  void Finish() override {
    stream_->Finish();
    time_.reset();
  }
  size_t backlog() const override { return stream_->backlog(); }
  bool closed() const override { return stream_->closed(); }
  void OnEvents(std::function<void()> drained, std::function<void()> closed) override {
    stream_->OnEvents(std::move(drained), std::move(closed));
  }

 private:
  std::shared_ptr<http::ResponseStream> stream_;
  std::shared_ptr<RequestTime> time_;
};

class MeasuredExchange final : public http::Exchange {
 public:
  MeasuredExchange(std::shared_ptr<http::Exchange> exchange, std::shared_ptr<RequestTime> time)
      : exchange_(std::move(exchange)), time_(std::move(time)) {}

  const http::Request& request() const override { return exchange_->request(); }
  void SetAuthority(std::string authority) override {
    exchange_->SetAuthority(std::move(authority));
  }
  void ReadBody(size_t limit, std::function<void(Result<std::string>)> done) override {
    exchange_->ReadBody(limit, std::move(done));
  }
  void SaveBody(int fd, uint64_t limit, std::function<void(Result<uint64_t>)> done) override {
    exchange_->SaveBody(fd, limit, std::move(done));
  }

  void Respond(http::Response response) override {
    if (time_) time_->status = response.status;
    // Count first: the answer may start the connection's next request.
    time_.reset();
    exchange_->Respond(std::move(response));
  }

  std::shared_ptr<http::ResponseStream> Stream(http::Response head) override {
    if (time_) time_->status = head.status;
    auto stream = exchange_->Stream(std::move(head));
    if (!stream) return nullptr;
    return std::make_shared<MeasuredStream>(std::move(stream), std::move(time_));
  }

  void Forward(http::Upstream upstream) override {
    RequestTime* const time = time_.get();
    if (time == nullptr) return exchange_->Forward(std::move(upstream));
    // `time` stays valid in both callbacks, because the server releases `held` after them.
    upstream.held = std::make_shared<Held>(std::move(upstream.held), std::move(time_));
    upstream.edit_response = [time, edit = std::move(upstream.edit_response)](
                                 int status, http::Headers* fields) {
      if (status == 101 || status >= 200) time->status = status;
      if (edit) edit(status, fields);
    };
    if (upstream.on_error) {
      upstream.on_error = [time, answer = std::move(upstream.on_error)](const Error& error) {
        http::Response response = answer(error);
        time->status = response.status;
        return response;
      };
    }
    exchange_->Forward(std::move(upstream));
  }

 private:
  using Held = std::pair<std::shared_ptr<const void>, std::shared_ptr<RequestTime>>;

  std::shared_ptr<http::Exchange> exchange_;
  std::shared_ptr<RequestTime> time_;
};

HistogramKind RequestKind() {
  return {"server.http.request.duration",
          "How long an HTTP request took, by method, route and status",
          {1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000},
          {"http_method", "http_route", "http_status_code"},
          // Room for all routes, each with a few statuses. The share limits routes whose series a
          // client or a sandbox can multiply.
          1024,
          1,
          64};
}

HistogramKind CreateKind() {
  return {"opensandbox.sandbox.create.duration",
          "How long a create took for the client, until the sandbox was ready or it had failed",
          {100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000},
          {"sdk.language", "sdk.version", "success"},
          256,
          0,
          64};
}

void AddUpstreamFamily(const Histogram& histogram, MetricSet* metrics) {
  const HistogramKind& kind = histogram.kind();
  MetricFamily& family =
      metrics->Histogram(kind.name, kind.description, kind.bounds, kind.attributes, "ms");
  for (const auto& [values, series] : histogram.series()) family.Add(series, values);
  if (histogram.overflow().count == 0) return;
  // OpenTelemetry's label for the overflow series.
  family.samples.push_back(
      {.labels = {{"otel.metric.overflow", true}}, .distribution = histogram.overflow()});
}

// Removes the prefix /v1, so that both paths of a route share a series.
std::string WithoutVersion(const std::string& route) {
  return route.starts_with("/v1/") ? route.substr(3) : route;
}

constexpr char kOther[] = "other";
constexpr double kSecondsOfMilli = 1e-3;

}  // namespace

Measurements::Measurements(const Clock& clock)
    : clock_(clock), requests_(RequestKind()), creates_(CreateKind()) {}

std::shared_ptr<http::Exchange> Measurements::Measure(
    const std::shared_ptr<Measurements>& measurements, std::shared_ptr<http::Exchange> exchange,
    std::string route_template) {
  auto time =
      std::make_shared<RequestTime>(measurements, exchange->request(), std::move(route_template));
  return std::make_shared<MeasuredExchange>(std::move(exchange), std::move(time));
}

void Measurements::AddClientEvent(const ClientEvent& event, const ClientSdk& sdk) {
  creates_.Record(static_cast<double>(event.duration_ms),
                  {sdk.language, sdk.version, event.success});
}

void Measurements::AddUpstream(MetricSet* metrics) const {
  AddUpstreamFamily(creates_, metrics);
  AddUpstreamFamily(requests_, metrics);
}

void Measurements::AddRequests(MetricSet* metrics) const {
  std::map<std::vector<LabelValue>, uint64_t> counts;
  std::map<std::string, Distribution> times;
  const auto add = [&](const std::string& method, const std::string& route,
                       const LabelValue& status, const Distribution& series) {
    counts[{route, method, status}] += series.count;
    times[route].Merge(series, kSecondsOfMilli);
  };
  for (const auto& [values, series] : requests_.series()) {
    add(std::get<std::string>(values[0]), WithoutVersion(std::get<std::string>(values[1])),
        values[2], series);
  }
  if (requests_.overflow().count != 0) {
    add(kOther, kOther, std::string(kOther), requests_.overflow());
  }
  MetricFamily& requests = metrics->Counter(
      "atoll_http_requests_total", "Requests whose answer is over, by route, method and status.",
      {"route", "method", "code"});
  for (const auto& [values, count] : counts) requests.Add(count, values);
  std::vector<double> bounds;
  for (const double ms : requests_.kind().bounds) bounds.push_back(ms * kSecondsOfMilli);
  MetricFamily& durations = metrics->Histogram(
      "atoll_http_request_duration_seconds",
      "Time from the head of a request to the end of its answer, by route.", bounds, {"route"});
  for (const auto& [route, series] : times) durations.Add(series, {route});
}

}  // namespace atl::api
