// Who we are to a store of objects, and how a request proves it: AWS Signature Version 4, which
// stores of other makers ask for, too.
//
// Not by libcurl, which can sign: Debian's (7.88) leaves the query as it stands, loads some thirty
// libraries into every call of atoll, and would be a second client of HTTP in it. What is to be
// signed is a page of text.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/client.h"

namespace atl::cli {

struct AwsCredentials {
  std::string key_id, secret;
  std::string token;  // of a session; may be empty
};
// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; else of the profile
// AWS_PROFILE ("default") in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials). kPermissionDenied:
// there are none, or others may read that file.
Result<AwsCredentials> FindAwsCredentials();

// Of a credentials file's text, a profile.
Result<AwsCredentials> ReadAwsCredentials(std::string_view text, const std::string& profile);

// Adds what proves that this call is ours, now: X-Amz-Date, the digest of the body, the signature.
// Its target is the path and query as they are sent, the query's parameters in order, each with a
// '='; its headers, the Host among them, are signed and complete.
void SignAwsCall(const AwsCredentials& credentials, const std::string& region, int64_t unix_seconds,
                 http::Client::Call* call);

}  // namespace atl::cli
