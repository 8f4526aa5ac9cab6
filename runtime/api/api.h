// The OpenSandbox API: what a request passes through, and where it ends. Order: request id, CORS,
// key, route, so that a 401 carries the id too.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "images/image_store.h"
#include "runtime/api/endpoint.h"
#include "runtime/api/ingress.h"
#include "runtime/api/router.h"
#include "runtime/http/server.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::api {

struct ApiConfig {
  std::string api_key;  // empty: no key is asked for
  EndpointConfig endpoint;
  IngressConfig ingress;
  uint64_t max_image_bytes = 64ULL << 30;
};

class Api {
 public:
  // The parts outlive it. `quit` is called after the answer to a shutdown has been handed over.
  Api(ApiConfig config, sandbox::Lifecycle& lifecycle, images::ImageStore& images,
      std::function<void()> quit);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // For AsioLoop::Listen.
  void Handle(std::shared_ptr<http::Exchange> exchange);

 private:
  void AddSandboxRoutes();
  void AddImageRoutes();
  void AddOperatorRoutes();
  void AddRefusals();

  void CreateSandbox(const Call& call);
  void ListSandboxes(const Call& call);
  void GetSandbox(const Call& call);
  void DeleteSandbox(const Call& call);
  void RenewSandbox(const Call& call);
  void PauseSandbox(const Call& call);
  void ResumeSandbox(const Call& call);
  void PatchMetadata(const Call& call);
  void GetEndpoint(const Call& call);
  void ImportImage(const Call& call);
  void ImportSaved(const Call& call, UniqueFd archive, std::string name);
  void Shutdown(const Call& call);

  void Route(Call call);

  const ApiConfig config_;
  sandbox::Lifecycle& lifecycle_;
  images::ImageStore& images_;
  std::function<void()> quit_;
  Router router_;
};

}  // namespace atl::api
