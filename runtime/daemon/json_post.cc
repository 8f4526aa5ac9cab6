#include "runtime/daemon/json_post.h"

#include <utility>

#include "runtime/http/base_url.h"
#include "runtime/http/client.h"

namespace atl::daemon {

Result<int> PostJson(const std::string& url, const http::Headers& headers, std::string body,
                     int64_t timeout_us) {
  ATOLL_ASSIGN(const http::BaseUrl parsed, http::ParseBaseUrl(url));
  ATOLL_ASSIGN(const std::unique_ptr<http::Client> client, http::Client::Create(url));
  http::Client::Call call;
  call.method = "POST";
  call.target = parsed.prefix.empty() ? "/" : "";
  call.headers = headers;
  call.headers.Set("Content-Type", "application/json");
  call.body = std::move(body);
  call.limit_us = timeout_us;
  ATOLL_ASSIGN(const http::Response response, client->Send(call));
  return response.status;
}

}  // namespace atl::daemon
