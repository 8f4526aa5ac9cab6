// Authenticates requests to object stores with AWS Signature Version 4, which stores of other
// vendors also require.
//
// libcurl can sign, but is not used: Debian's version (7.88) does not normalise the query, it would
// load about thirty libraries into every call of atoll, and it would be a second HTTP client. The
// text to sign is one page of code.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/client.h"

namespace atl::cli {

struct AwsCredentials {
  std::string key_id, secret;
  std::string token;  // session token; may be empty
};
// Reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. If these are not set, reads
// the profile AWS_PROFILE ("default") from AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials).
// kPermissionDenied: there are no credentials, or other users may read that file.
Result<AwsCredentials> FindAwsCredentials();

// Parses one profile of a credentials file.
Result<AwsCredentials> ReadAwsCredentials(std::string_view text, const std::string& profile);

// Adds the headers that sign the call: X-Amz-Date, the digest of the body, the signature. The
// target must be the path and query as sent: parameters sorted, each with a '='. All headers are
// signed, so `call` must be complete, Host included.
void SignAwsCall(const AwsCredentials& credentials, const std::string& region, int64_t unix_seconds,
                 http::Client::Call* call);

}  // namespace atl::cli
