#include <fcntl.h>

#include <algorithm>
#include <string_view>

#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/client.h"
#include "runtime/tenants/token_verifier.h"

namespace atl::tenants {
namespace {

constexpr int64_t kFetchUs = 5'000'000;
constexpr std::string_view kFile = "file://";
constexpr std::string_view kScheme = "https://";

}  // namespace

Result<std::string> FetchKeySet(const std::string& address) {
  if (address.starts_with(kFile)) {
    // A pipe without a writer must not hold the thread.
    ATOLL_ASSIGN(const UniqueFd file,
                 sys::Open(address.substr(kFile.size()), O_RDONLY | O_NONBLOCK));
    return sys::ReadAll(file.get(), kMaxKeySet);
  }
  const size_t path = std::min(address.find('/', kScheme.size()), address.size());
  ATOLL_ASSIGN(const auto client, http::Client::Create(address.substr(0, path)));
  http::Client::Call call;
  if (path != address.size()) call.target = address.substr(path);
  call.headers.Set("Accept", "application/json");
  call.limit_us = kFetchUs;
  std::string text;
  ATOLL_ASSIGN(const http::Response response, client->Stream(call, [&text](std::string_view part) {
    text.append(part);
    return text.size() <= kMaxKeySet;
  }));
  if (response.status != 200) {
    return Fail(Code::kUnavailable, address + " answers " + std::to_string(response.status));
  }
  return text;
}

}  // namespace atl::tenants
