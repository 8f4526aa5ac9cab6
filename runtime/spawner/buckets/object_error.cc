#include "runtime/spawner/buckets/object_error.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace atl::spawner {
namespace {

void Mask(std::string* text, const std::string& secret) {
  constexpr std::string_view kMask = "***";
  if (secret.empty()) return;
  // Continues behind the replacement, because a secret may be an asterisk.
  for (size_t at = text->find(secret); at != std::string::npos;
       at = text->find(secret, at + kMask.size())) {
    text->replace(at, secret.size(), kMask);
  }
}

// Returns the last line of the log, as far as a client may see it.
std::string LastLine(std::string_view log, const wire::ObjectCredentials& hidden) {
  constexpr size_t kMost = 300;
  while (log.ends_with('\n')) log.remove_suffix(1);
  std::string line(log.substr(log.rfind('\n') + 1));
  // Mask before the line is cut: half of a secret is a secret.
  Mask(&line, hidden.secret);
  Mask(&line, hidden.key);
  line.resize(std::min(line.size(), kMost));
  for (char& c : line) {
    if (c < ' ' || c > '~') c = '?';
  }
  return line;
}

}  // namespace

Error ObjectError(const std::string& log, const wire::ObjectStore& store, const std::string& bucket,
                  const wire::ObjectCredentials& hidden) {
  const std::string what = "bucket '" + bucket + "' of " + wire::EndpointOf(store);
  const auto says = [&](const char* words) { return log.find(words) != std::string::npos; };
  if (says("invalid credentials")) {
    return Error(Code::kFailedPrecondition,
                 what + ": the store does not accept the credentials, or they may not list it");
  }
  if (says("bucket or key not found") || says("bucket not found")) {
    return Error(Code::kNotFound, what + " does not exist");
  }
  if (says("unable to connect")) {
    return Error(Code::kDeadlineExceeded, what + ": the store does not answer");
  }
  // s3fs says this of its cache directory. The client needs to know the file system.
  if (says("no enough disk space") || says("No space left on device")) {
    return Error(Code::kResourceExhausted,
                 what + ": the file system of <data_dir>/store has no room for its cache", ENOSPC);
  }
  const std::string line = LastLine(log, hidden);
  return Error(Code::kInternal,
               what + " cannot be mounted" +
                   (line.empty() ? ": s3fs ended without a word" : "; s3fs says: " + line));
}

}  // namespace atl::spawner
