#include "tools/atoll/archives/aws_signature.h"

#include <gtest/gtest.h>

namespace atl::cli {
namespace {

// The example of "Examples of the complete Version 4 signing process" in Amazon's documentation of
// S3.
const AwsCredentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                              ""};
constexpr int64_t kMay24 = 1369353600;

std::string SignatureOf(const std::string& method, const std::string& target,
                        const http::Headers& headers, const std::string& body) {
  http::Client::Call call;
  call.method = method;
  call.target = target;
  call.headers = headers;
  call.headers.Set("Host", "examplebucket.s3.amazonaws.com");
  call.body = body;
  SignAwsCall(kExample, "us-east-1", kMay24, &call);
  const std::string authorization(call.headers.Get("Authorization"));
  return authorization.substr(authorization.rfind('=') + 1);
}

TEST(AwsSignatureTest, TheExamplesOfItsMaker) {
  http::Headers range;
  range.Set("Range", "bytes=0-9");
  EXPECT_EQ(SignatureOf("GET", "/test.txt", range, ""),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  http::Headers put;
  put.Set("Date", "Fri, 24 May 2013 00:00:00 GMT");
  put.Set("x-amz-storage-class", "REDUCED_REDUNDANCY");
  EXPECT_EQ(SignatureOf("PUT", "/test%24file.text", put, "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(SignatureOf("GET", "/?lifecycle=", {}, ""),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(SignatureOf("GET", "/?max-keys=2&prefix=J", {}, ""),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(AwsSignatureTest, ASessionsTokenIsSigned) {
  http::Client::Call call;
  AwsCredentials session = kExample;
  session.token = "token";
  SignAwsCall(session, "eu-west-1", kMay24, &call);
  EXPECT_EQ(call.headers.Get("X-Amz-Security-Token"), "token");
  EXPECT_NE(call.headers.Get("Authorization").find("x-amz-security-token"), std::string::npos);
  EXPECT_NE(call.headers.Get("Authorization").find("/20130524/eu-west-1/s3/aws4_request"),
            std::string::npos);
}

TEST(AwsSignatureTest, AProfileOfACredentialsFile) {
  constexpr char kText[] =
      "# ours\n[default]\naws_access_key_id = ID\r\naws_secret_access_key=a=b \n\n"
      "[ other ]\naws_access_key_id=ID2\naws_secret_access_key=S2\naws_session_token=T2\n[half]\n"
      "aws_access_key_id=ID3\n#aws_secret_access_key=S3";
  const auto first = ReadAwsCredentials(kText, "default");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->key_id, "ID");
  EXPECT_EQ(first->secret, "a=b");
  EXPECT_EQ(first->token, "");
  EXPECT_EQ(ReadAwsCredentials(kText, "other")->token, "T2");
  for (const char* profile : {"half", "absent", ""}) {
    const auto none = ReadAwsCredentials(kText, profile);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message().find("ID"), std::string::npos) << "it tells what it has read";
  }
}

}  // namespace
}  // namespace atl::cli
