#include "runtime/daemon/json_post.h"

#include <sys/timerfd.h>

#include <utility>

#include "runtime/base/unique_fd.h"
#include "runtime/http/base_url.h"
#include "runtime/http/client.h"

namespace atl::daemon {

Result<int> PostJson(const std::string& url, const http::Headers& headers, std::string body,
                     int64_t timeout_us) {
  ATOLL_ASSIGN(const http::BaseUrl parsed, http::ParseBaseUrl(url));
  ATOLL_ASSIGN(const std::unique_ptr<http::Client> client, http::Client::Create(url));
  const UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  itimerspec limit{};
  limit.it_value.tv_sec = timeout_us / 1'000'000;
  limit.it_value.tv_nsec = timeout_us % 1'000'000 * 1000;
  if (!timer || ::timerfd_settime(timer.get(), 0, &limit, nullptr) != 0) return FailSys("timerfd");
  http::Client::Call call;
  call.method = "POST";
  call.target = parsed.prefix.empty() ? "/" : "";
  call.headers = headers;
  call.headers.Set("Content-Type", "application/json");
  call.body = std::move(body);
  call.cancel_fd = timer.get();
  ATOLL_ASSIGN(const http::Response response, client->Send(call));
  return response.status;
}

}  // namespace atl::daemon
