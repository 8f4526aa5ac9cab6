// Objects in S3-compatible stores, used as remote files: "s3://BUCKET/KEY".
//
// Requests are signed (aws_signature.h) and use TLS unless the store is on this host. A store that
// does not answer for a minute is an error. Errors that may be temporary (a broken connection, 503)
// are retried a few times.
//
// Thread rule: blocks; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/client.h"
#include "tools/atoll/archives/aws_signature.h"

namespace atl::cli {

bool IsObjectUrl(std::string_view place);

class ObjectStore {
 public:
  // Opens one object; sends nothing yet. `endpoint` is the URL of the store. Empty:
  // AWS_ENDPOINT_URL, or Amazon's in AWS_REGION (AWS_DEFAULT_REGION, "us-east-1"). AWS_CA_BUNDLE
  // names authorities other than the host's. A signal at `cancel_fd` ends every call, with
  // ECANCELED. kInvalidArgument, kPermissionDenied: see FindAwsCredentials.
  static Result<std::unique_ptr<ObjectStore>> Open(const std::string& url,
                                                   const std::string& endpoint, int cancel_fd);
  // Aborts an unfinished upload.
  ~ObjectStore();

  // Writes the object to `to`. After a broken connection it resumes if the object has not changed.
  // `progress` gets the bytes done and the total. kNotFound, kPermissionDenied, kUnavailable.
  Status Fetch(int to, const std::function<void(uint64_t, uint64_t)>& progress);

  // Appends to a new object. The object appears, and replaces an older one of its name, only when
  // Finish returns.
  Status Write(std::string_view bytes);
  Status Finish();

 private:
  using Sink = std::function<bool(std::string_view)>;
  ObjectStore(AwsCredentials credentials, std::string region, std::string authority,
              std::string path, std::unique_ptr<http::Client> client, UniqueFd patience,
              UniqueFd wake, int interrupt_fd);
  // Sends the call once. `sink` gets the body of a 2xx answer.
  Result<http::Response> Try(http::Client::Call call, const Sink* sink);
  // Sends the call and retries temporary errors, unless the store may already have done a call that
  // must not be done twice. Returns a 2xx answer.
  Result<http::Response> Ask(const http::Client::Call& call);
  bool WaitBefore(int attempt) const;  // false: interrupted
  bool Interrupted() const;
  void RenewPatience(int seconds) const;
  http::Client::Call CallOf(const std::string& method, const std::string& query) const;
  Error Refused(const http::Response& response) const;
  Status Begin();
  Status SendPart();

  const AwsCredentials credentials_;
  const std::string region_;
  const std::string authority_;
  const std::string path_;  // percent-encoded path of the object
  const std::unique_ptr<http::Client> client_;
  const UniqueFd patience_;  // a timer
  const UniqueFd wake_;      // readable on timeout or interrupt
  int interrupt_fd_;
  std::string part_;    // the part that is being filled
  std::string upload_;  // upload id; empty: not begun
  std::string parts_;   // the parts sent so far, as XML
  int sent_ = 0;
};

}  // namespace atl::cli
