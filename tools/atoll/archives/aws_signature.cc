#include "tools/atoll/archives/aws_signature.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <map>

#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/base/sys.h"

namespace atl::cli {
namespace {

constexpr size_t kMostCredentials = 1 << 20;

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::string TimeText(int64_t unix_seconds) {
  const time_t time = unix_seconds;
  tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

}  // namespace

Result<AwsCredentials> ReadAwsCredentials(std::string_view text, const std::string& profile) {
  AwsCredentials found;
  bool inside = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[')) inside = Trimmed(line.substr(1, line.find(']') - 1)) == profile;
    const size_t equals = line.find('=');
    if (!inside || line.starts_with('#') || equals == std::string_view::npos) continue;
    const std::string_view key = Trimmed(line.substr(0, equals));
    const std::string value(Trimmed(line.substr(equals + 1)));
    if (key == "aws_access_key_id") found.key_id = value;
    if (key == "aws_secret_access_key") found.secret = value;
    if (key == "aws_session_token") found.token = value;
  }
  if (!found.key_id.empty() && !found.secret.empty()) return found;
  return Fail(Code::kPermissionDenied,
              "no aws_access_key_id and aws_secret_access_key of profile '" + profile + "'");
}

Result<AwsCredentials> FindAwsCredentials() {
  AwsCredentials given{Variable("AWS_ACCESS_KEY_ID"), Variable("AWS_SECRET_ACCESS_KEY"),
                       Variable("AWS_SESSION_TOKEN")};
  if (!given.key_id.empty() && !given.secret.empty()) return given;
  std::string path = Variable("AWS_SHARED_CREDENTIALS_FILE");
  if (path.empty()) path = Variable("HOME") + "/.aws/credentials";
  const auto file = sys::Open(path, O_RDONLY);
  if (!file) {
    return Fail(Error(Code::kPermissionDenied,
                      "who are we to the store? set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                      "or have them in " +
                          path + " (" + file.error().message() + ")"));
  }
  struct stat info {};
  if (fstat(file->get(), &info) != 0) return FailSys("fstat " + path);
  if ((info.st_mode & 077) != 0) {
    return Fail(Code::kPermissionDenied,
                path + " has secrets, and others may read it; type: chmod 600 " + path);
  }
  ATOLL_ASSIGN(const std::string text, sys::ReadAll(file->get(), kMostCredentials));
  const std::string profile = Variable("AWS_PROFILE");
  auto read = ReadAwsCredentials(text, profile.empty() ? "default" : profile);
  if (!read) return Fail(std::move(read).error().Wrap(path));
  return read;
}

void SignAwsCall(const AwsCredentials& credentials, const std::string& region, int64_t unix_seconds,
                 http::Client::Call* call) {
  const std::string time = TimeText(unix_seconds);
  const std::string scope = time.substr(0, 8) + "/" + region + "/s3/aws4_request";
  const std::string body = HexEncode(Sha256(call->body));
  call->headers.Set("X-Amz-Content-Sha256", body);
  call->headers.Set("X-Amz-Date", time);
  if (!credentials.token.empty()) call->headers.Set("X-Amz-Security-Token", credentials.token);

  std::map<std::string, std::string> lower;
  for (const http::Header& header : call->headers.list) {
    std::string name = header.name;
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    lower[name] = Trimmed(header.value);
  }
  std::string headers, names;
  for (const auto& [name, value] : lower) {
    headers.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
  }
  const size_t question = std::min(call->target.find('?'), call->target.size());
  const std::string query =
      question < call->target.size() ? call->target.substr(question + 1) : std::string();
  const std::string request = call->method + "\n" + call->target.substr(0, question) + "\n" +
                              query + "\n" + headers + "\n" + names + "\n" + body;
  const std::string text =
      "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + HexEncode(Sha256(request));
  std::string key = "AWS4" + credentials.secret;
  for (const std::string& part :
       {time.substr(0, 8), region, std::string("s3"), std::string("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  call->headers.Set("Authorization", "AWS4-HMAC-SHA256 Credential=" + credentials.key_id + "/" +
                                         scope + ",SignedHeaders=" + names +
                                         ",Signature=" + HexEncode(HmacSha256(key, text)));
}

}  // namespace atl::cli
