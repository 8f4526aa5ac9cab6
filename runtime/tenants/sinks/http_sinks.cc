#include "runtime/tenants/sinks/http_sinks.h"

#include <zlib.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/http/base_url.h"
#include "runtime/http/client.h"
#include "runtime/tenants/audit/audit_line.h"
#include "runtime/tenants/audit/line_time.h"
#include "runtime/tenants/sinks/line_json.h"

namespace atl::sinks {
namespace {

using nlohmann::json;

constexpr int64_t kTimeoutUs = 30'000'000;

Result<std::string> Gzip(const std::string& text) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16, kMemory = 8;
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
    return Fail(Code::kResourceExhausted, "gzip: out of memory");
  }
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int ended = ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (ended != Z_STREAM_END) return Fail(Code::kInternal, "gzip failed");
  return packed;
}

class Poster {
 public:
  static Result<Poster> Create(HttpOptions options) {
    ATOLL_ASSIGN(auto client, http::Client::Create(options.url, options.trust));
    ATOLL_ASSIGN(const http::BaseUrl url, http::ParseBaseUrl(options.url));
    return Poster(std::move(client), std::move(options), url.prefix.empty() ? "/" : "");
  }

  Status Post(const Batch& batch, const char* type, const std::string& text) {
    ATOLL_ASSIGN(std::string body, Gzip(text));
    http::Client::Call call;
    call.method = "POST";
    call.target = target_;
    call.headers.Set("Content-Type", type);
    call.headers.Set("Content-Encoding", "gzip");
    if (const auto first = audit::ParseLine(batch.front())) {
      call.headers.Set("Atoll-Batch", std::string(first->boot) + "-" + std::to_string(first->seq));
    }
    if (!options_.bearer.empty()) call.headers.Set("Authorization", "Bearer " + options_.bearer);
    if (!options_.key.empty()) {
      const std::string time = std::to_string(UnixMillis() / 1000);
      const std::string mac = HmacSha256(options_.key, time + "." + body);
      call.headers.Set("Atoll-Signature", "t=" + time + ",v1=" + HexEncode(mac));
    }
    call.body = std::move(body);
    call.limit_us = kTimeoutUs;
    ATOLL_ASSIGN(const http::Response answer, client_->Send(call));
    if (answer.status >= 200 && answer.status < 300) return {};
    return Fail(Code::kUnavailable, "the receiver answered " + std::to_string(answer.status));
  }

 private:
  Poster(std::unique_ptr<http::Client> client, HttpOptions options, std::string target)
      : client_(std::move(client)), options_(std::move(options)), target_(std::move(target)) {}

  std::unique_ptr<http::Client> client_;
  HttpOptions options_;
  std::string target_;
};

class Https final : public Sink {
 public:
  explicit Https(Poster poster) : poster_(std::move(poster)) {}
  Status Send(const Batch& batch) override {
    std::string text;
    for (const std::string& line : batch) text.append(line).push_back('\n');
    return poster_.Post(batch, "application/x-ndjson", text);
  }

 private:
  Poster poster_;
};

class Otlp final : public Sink {
 public:
  explicit Otlp(Poster poster) : poster_(std::move(poster)) {}
  Status Send(const Batch& batch) override {
    return poster_.Post(batch, "application/json", OtlpLogs(batch));
  }

 private:
  Poster poster_;
};

json Attribute(const char* name, const std::string& value) {
  return {{"key", name}, {"value", {{"stringValue", value}}}};
}

// Returns nanoseconds since the Unix epoch, as OTLP's JSON writes them.
std::string NanosOf(const std::string& time) {
  return std::to_string(audit::UnixMicrosOf(time) * 1000);
}

}  // namespace

std::string OtlpLogs(const Batch& batch) {
  json records = json::array();
  for (const std::string& text : batch) {
    const json line = JsonOrNull(text);
    if (!line.is_object()) continue;
    const bool good = line.value("outcome", "") == "success";
    json attributes = json::array();
    for (const auto& [name, value] :
         {std::pair{"atoll.action", line.value("action", "")},
          {"atoll.outcome", line.value("outcome", "")},
          {"atoll.tenant", line.value("tenant", "")},
          {"atoll.actor", PartOf(line, "actor", "id")},
          {"atoll.target", PartOf(line, "target", "id")},
          {"client.address", PartOf(line, "from", "ip")},
          {"log.record.uid",
           line.value("boot", "") + "-" + std::to_string(line.value("seq", uint64_t{0}))}}) {
      if (!value.empty()) attributes.push_back(Attribute(name, value));
    }
    json record = {{"timeUnixNano", NanosOf(line.value("time", ""))},
                   {"severityNumber", good ? 9 : 13},
                   {"severityText", good ? "INFO" : "WARN"},
                   {"eventName", "atoll." + line.value("action", "")},
                   {"body", {{"stringValue", text}}},
                   {"attributes", std::move(attributes)}};
    if (const std::string trace = line.value("trace", ""); !trace.empty())
      record["traceId"] = trace;
    records.push_back(std::move(record));
  }
  return JsonText(
      {{"resourceLogs",
        json::array(
            {{{"resource", {{"attributes", json::array({Attribute("service.name", "atoll")})}}},
              {"scopeLogs", json::array({{{"scope", {{"name", "atoll.audit"}}},
                                          {"logRecords", std::move(records)}}})}}})}});
}

Result<std::unique_ptr<Sink>> MakeHttps(HttpOptions options) {
  ATOLL_ASSIGN(Poster poster, Poster::Create(std::move(options)));
  return std::unique_ptr<Sink>(std::make_unique<Https>(std::move(poster)));
}

Result<std::unique_ptr<Sink>> MakeOtlp(HttpOptions options) {
  ATOLL_ASSIGN(Poster poster, Poster::Create(std::move(options)));
  return std::unique_ptr<Sink>(std::make_unique<Otlp>(std::move(poster)));
}

}  // namespace atl::sinks
