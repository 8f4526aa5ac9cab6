#include "tools/atoll/archives/object_store.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/http/base_url.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

constexpr std::string_view kScheme = "s3://";
// Size of all parts but the last. 10,000 parts, the limit of an object, hold more than the largest
// archive.
constexpr size_t kPartBytes = 16 << 20;
constexpr uint64_t kMostBytes = uint64_t{64} << 30;
// Deadlines for the next bytes of an answer, and for sending a whole part, during which the store
// sends nothing.
constexpr int kPatienceSeconds = 60;
constexpr int kPartSeconds = 600;
constexpr int kMostTries = 5;
constexpr int kFirstPauseMillis = 200;

std::string Setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

bool MayPass(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

// Returns the text of the first element of that name. Answers of stores are small and flat.
std::string ElementOf(std::string_view xml, const std::string& name) {
  const size_t begin = xml.find("<" + name + ">");
  if (begin == std::string_view::npos) return {};
  const size_t text = begin + name.size() + 2;
  const size_t end = xml.find("</" + name + ">", text);
  return end == std::string_view::npos ? std::string() : std::string(xml.substr(text, end - text));
}

uint64_t SizeIn(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Encodes each segment on its own: a '/' separates keys as it separates paths.
std::string EncodedKey(std::string_view key) {
  std::string out;
  while (!key.empty()) {
    const size_t slash = std::min(key.find('/'), key.size());
    out += "/" + PercentEncode(key.substr(0, slash));
    key.remove_prefix(std::min(slash + 1, key.size()));
  }
  return out;
}

bool ValidBucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= 63 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") ==
             std::string_view::npos &&
         name.front() != '.' && name.find("..") == std::string_view::npos;
}

bool IsOfThisHost(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

bool IsObjectUrl(std::string_view place) {
  return place.starts_with(kScheme);
}

Result<std::unique_ptr<ObjectStore>> ObjectStore::Open(const std::string& url,
                                                       const std::string& given, int cancel_fd) {
  const std::string_view rest = std::string_view(url).substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string bucket(rest.substr(0, slash));
  const std::string_view key = rest.substr(std::min(slash + 1, rest.size()));
  if (!ValidBucket(bucket) || key.empty() || key.size() > 1024 || key.front() == '/' ||
      key.back() == '/' || key.find("//") != std::string_view::npos) {
    return Fail(Code::kInvalidArgument,
                "'" + Printable(url) + "' does not name an object; use s3://BUCKET/KEY");
  }
  ATOLL_ASSIGN(AwsCredentials credentials, FindAwsCredentials());
  const std::string region =
      Setting("AWS_REGION", Setting("AWS_DEFAULT_REGION", "us-east-1").c_str());
  const std::string endpoint = given.empty() ? Setting("AWS_ENDPOINT_URL", "") : given;
  // A private store usually has no host name per bucket, so the bucket goes into the path. Amazon
  // recommends the host name.
  ATOLL_ASSIGN(
      const http::BaseUrl base,
      http::ParseBaseUrl(endpoint.empty() ? "https://" + bucket + ".s3." + region + ".amazonaws.com"
                                          : endpoint));
  if (!base.tls && !IsOfThisHost(base.host)) {
    return Fail(Code::kInvalidArgument, "endpoint " + Printable(endpoint) +
                                            " does not use TLS, so anybody on the network could "
                                            "change what is stored; use https://HOST");
  }
  std::shared_ptr<const http::TlsContext> trust;
  if (base.tls) {
    ATOLL_ASSIGN(trust, http::TlsContext::ForClient(Setting("AWS_CA_BUNDLE", "")));
  }
  ATOLL_ASSIGN(auto client,
               http::Client::Create((base.tls ? "https://" : "http://") + base.authority, trust));
  UniqueFd patience(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!patience) return FailSys("timerfd_create");
  UniqueFd wake(::epoll_create1(EPOLL_CLOEXEC));
  if (!wake) return FailSys("epoll_create1");
  for (const int fd : {patience.get(), cancel_fd}) {
    epoll_event event{EPOLLIN, {}};
    if (::epoll_ctl(wake.get(), EPOLL_CTL_ADD, fd, &event) != 0) return FailSys("epoll_ctl");
  }
  return std::unique_ptr<ObjectStore>(
      new ObjectStore(std::move(credentials), region, base.authority,
                      base.prefix + (endpoint.empty() ? "" : "/" + bucket) + EncodedKey(key),
                      std::move(client), std::move(patience), std::move(wake), cancel_fd));
}

ObjectStore::ObjectStore(AwsCredentials credentials, std::string region, std::string authority,
                         std::string path, std::unique_ptr<http::Client> client, UniqueFd patience,
                         UniqueFd wake, int interrupt_fd)
    : credentials_(std::move(credentials)),
      region_(std::move(region)),
      authority_(std::move(authority)),
      path_(std::move(path)),
      client_(std::move(client)),
      patience_(std::move(patience)),
      wake_(std::move(wake)),
      interrupt_fd_(interrupt_fd) {}

ObjectStore::~ObjectStore() {
  if (upload_.empty()) return;
  // The abort must run even after an interrupt, so it no longer watches for one.
  ::epoll_ctl(wake_.get(), EPOLL_CTL_DEL, interrupt_fd_, nullptr);
  interrupt_fd_ = -1;
  [[maybe_unused]] const auto gone =
      Try(CallOf("DELETE", "?uploadId=" + PercentEncode(upload_)), nullptr);
}

http::Client::Call ObjectStore::CallOf(const std::string& method, const std::string& query) const {
  http::Client::Call call;
  call.method = method;
  call.target = path_ + query;
  call.headers.Set("Host", authority_);
  return call;
}

bool ObjectStore::Interrupted() const {
  pollfd interrupt{interrupt_fd_, POLLIN, 0};
  return ::poll(&interrupt, 1, 0) > 0;
}

void ObjectStore::RenewPatience(int seconds) const {
  itimerspec when{};
  when.it_value.tv_sec = seconds;
  ATOLL_CHECK(::timerfd_settime(patience_.get(), 0, &when, nullptr) == 0);
}

Result<http::Response> ObjectStore::Try(http::Client::Call call, const Sink* sink) {
  SignAwsCall(credentials_, region_, ::time(nullptr), &call);
  call.cancel_fd = wake_.get();
  RenewPatience(call.body.empty() ? kPatienceSeconds : kPartSeconds);
  auto response = sink == nullptr ? client_->Send(call)
                                  : client_->Stream(call, [this, sink](std::string_view bytes) {
                                      RenewPatience(kPatienceSeconds);
                                      return (*sink)(bytes);
                                    });
  if (response || response.error().error_number() != ECANCELED || Interrupted()) return response;
  return Fail(Code::kUnavailable, authority_ + " did not answer in time");
}

bool ObjectStore::WaitBefore(int attempt) const {
  pollfd interrupt{interrupt_fd_, POLLIN, 0};
  return ::poll(&interrupt, 1, kFirstPauseMillis << attempt) == 0;
}

Result<http::Response> ObjectStore::Ask(const http::Client::Call& call) {
  for (int attempt = 0;; ++attempt) {
    auto response = Try(call, nullptr);
    const bool again = response ? MayPass(response->status)
                                : response.error().code() == Code::kUnavailable && !Interrupted() &&
                                      call.method != "POST";
    if (again && attempt + 1 < kMostTries && WaitBefore(attempt)) continue;
    if (response && response->status / 100 != 2) return Fail(Refused(*response));
    return response;
  }
}

Error ObjectStore::Refused(const http::Response& response) const {
  std::string why = ElementOf(response.body, "Code");
  const std::string message = ElementOf(response.body, "Message");
  if (!message.empty()) why += ": " + message;
  std::string text = authority_ + path_ + ": the store answers with status " +
                     std::to_string(response.status) +
                     (why.empty() ? "" : ", " + Printable(why.substr(0, 500)));
  const std::string region(response.headers.Get("x-amz-bucket-region"));
  if (!region.empty() && region != region_) {
    text += "; the bucket is in another region: set AWS_REGION=" + Printable(region);
  }
  const Code code = response.status == 404   ? Code::kNotFound
                    : response.status == 403 ? Code::kPermissionDenied
                                             : Code::kUnavailable;
  return Error(code, text);
}

Status ObjectStore::Fetch(int to, const std::function<void(uint64_t, uint64_t)>& progress) {
  ATOLL_ASSIGN(const http::Response head, Ask(CallOf("HEAD", "")));
  const std::string tag(head.headers.Get("ETag"));
  const uint64_t size = SizeIn(head.headers.Get("Content-Length"));
  if (tag.empty() || size > kMostBytes) {
    return Fail(Code::kInvalidArgument,
                authority_ + path_ + ", of " + std::to_string(size) +
                    " bytes, is not an object, or is larger than an archive can be");
  }
  uint64_t at = 0;
  Status wrote;
  const Sink sink = [&](std::string_view bytes) {
    at += bytes.size();
    if (at <= size) wrote = sys::WriteAll(to, bytes);
    progress(at, size);
    return wrote.has_value() && at <= size;
  };
  for (int attempt = 0;; ++attempt) {
    const uint64_t before = at;
    http::Client::Call call = CallOf("GET", "");
    call.headers.Set("If-Match", tag);
    if (at > 0) call.headers.Set("Range", "bytes=" + std::to_string(at) + "-");
    const auto response = Try(std::move(call), &sink);
    if (!wrote) return wrote;
    const int status = response ? response->status : 0;
    if (status / 100 == 2 && at == size) return {};
    if (status / 100 == 2) {
      return Fail(Code::kUnavailable, authority_ + path_ + ": " + std::to_string(at) +
                                          " bytes came where " + std::to_string(size) +
                                          " were to come");
    }
    if (status == 412) {
      return Fail(Code::kUnavailable,
                  authority_ + path_ + " was replaced while it was read; try again");
    }
    if (response && !MayPass(status)) return Fail(Refused(*response));
    // Progress resets the number of attempts.
    if (at > before) attempt = 0;
    if (Interrupted() || attempt + 1 == kMostTries || !WaitBefore(attempt)) {
      return response ? Status(Fail(Refused(*response))) : Status(Fail(response.error()));
    }
  }
}

Status ObjectStore::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t taken = std::min(bytes.size(), kPartBytes - part_.size());
    part_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    // Only the last part may be small; Finish sends it.
    if (part_.size() < kPartBytes || bytes.empty()) continue;
    if (upload_.empty()) ATOLL_TRY(Begin());
    ATOLL_TRY(SendPart());
  }
  return {};
}

Status ObjectStore::Begin() {
  ATOLL_ASSIGN(const http::Response response, Ask(CallOf("POST", "?uploads=")));
  upload_ = ElementOf(response.body, "UploadId");
  if (!upload_.empty() && upload_.size() <= 1024) return {};
  upload_.clear();
  return Fail(Code::kUnavailable,
              authority_ + " did not start a multipart upload; it may not be an S3 server");
}

Status ObjectStore::SendPart() {
  const std::string number = std::to_string(++sent_);
  http::Client::Call call =
      CallOf("PUT", "?partNumber=" + number + "&uploadId=" + PercentEncode(upload_));
  call.body = std::exchange(part_, {});
  ATOLL_ASSIGN(const http::Response response, Ask(call));
  parts_ += "<Part><PartNumber>" + number + "</PartNumber><ETag>" +
            std::string(response.headers.Get("ETag")) + "</ETag></Part>";
  return {};
}

Status ObjectStore::Finish() {
  if (upload_.empty()) {
    http::Client::Call call = CallOf("PUT", "");
    call.body = std::exchange(part_, {});
    ATOLL_TRY(Ask(call));
    return {};
  }
  ATOLL_TRY(SendPart());
  http::Client::Call call = CallOf("POST", "?uploadId=" + PercentEncode(upload_));
  call.body = "<CompleteMultipartUpload>" + parts_ + "</CompleteMultipartUpload>";
  ATOLL_ASSIGN(const http::Response response, Ask(call));
  // The store may report an error in an answer that began with 200.
  if (!ElementOf(response.body, "Code").empty()) return Fail(Refused(response));
  upload_.clear();
  return {};
}

}  // namespace atl::cli
