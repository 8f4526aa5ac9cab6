// The server's Exchange. Internal to this folder.
#pragma once

#include <memory>

#include "runtime/http/server.h"

namespace atl::http {

class Connection;

class ExchangeImpl final : public Exchange {
 public:
  ExchangeImpl(std::shared_ptr<Connection> connection, Request request);
  ExchangeImpl(const ExchangeImpl&) = delete;
  ExchangeImpl& operator=(const ExchangeImpl&) = delete;
  ~ExchangeImpl() override;

  const Request& request() const override { return request_; }
  void SetAuthority(std::string authority) override;
  void ReadBody(size_t limit, std::function<void(Result<std::string>)> done) override;
  void SaveBody(int fd, uint64_t limit, std::function<void(Result<uint64_t>)> done) override;
  void Respond(Response response) override;
  std::shared_ptr<ResponseStream> Stream(Response head) override;
  void Forward(Upstream upstream) override;

 private:
  std::shared_ptr<Connection> connection_;
  Request request_;
  bool answered_ = false;
};

}  // namespace atl::http
