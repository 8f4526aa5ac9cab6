// Objects in S3-compatible stores, as files that are far away: "s3://BUCKET/KEY".
//
// Requests are signed (aws_signature.h), over TLS unless the store is on this host. A store that
// does not answer is given up after a minute; what may pass (a broken connection, 503) is tried
// again a few times.
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
  // For one object. `endpoint`: of the store, empty: AWS_ENDPOINT_URL, or Amazon's in AWS_REGION
  // (AWS_DEFAULT_REGION, "us-east-1"); AWS_CA_BUNDLE has authorities other than the host's. What
  // comes at `cancel_fd` ends whatever runs, with ECANCELED. Nothing is asked yet.
  // kInvalidArgument, kPermissionDenied: FindAwsCredentials.
  static Result<std::unique_ptr<ObjectStore>> Open(const std::string& url,
                                                   const std::string& endpoint, int cancel_fd);
  // Gives up what has been begun and not finished.
  ~ObjectStore();

  // Writes the object to `to`, and goes on where a connection has broken off as long as it is the
  // same object. `progress` hears how much of how much is there. kNotFound, kPermissionDenied,
  // kUnavailable.
  Status Fetch(int to, const std::function<void(uint64_t, uint64_t)>& progress);

  // The next bytes of a new object, which appears whole, in the place of what had its name, when
  // Finish returns, or not at all.
  Status Write(std::string_view bytes);
  Status Finish();

 private:
  using Sink = std::function<bool(std::string_view)>;
  ObjectStore(AwsCredentials credentials, std::string region, std::string authority,
              std::string path, std::unique_ptr<http::Client> client, UniqueFd patience,
              UniqueFd wake, int interrupt_fd);
  // One try; `sink` gets a body of status 2xx.
  Result<http::Response> Try(http::Client::Call call, const Sink* sink);
  // Tries again what may pass, unless it may have been done and must not be done twice. The answer
  // is of status 2xx.
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
  const std::string path_;  // of the object, encoded
  const std::unique_ptr<http::Client> client_;
  const UniqueFd patience_;  // a timer
  const UniqueFd wake_;      // readable when that has run out or an interrupt has come
  int interrupt_fd_;
  std::string part_;    // that has not been sent
  std::string upload_;  // its id, once there is one
  std::string parts_;   // those that were sent, as XML
  int sent_ = 0;
};

}  // namespace atl::cli
