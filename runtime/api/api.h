// The OpenSandbox API: what a request passes through, and where it ends. Order: request id, way
// into a sandbox, CORS, key, route, so that a 401 carries the id too and a sandbox's server answers
// preflights of its own.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "runtime/api/create_request.h"
#include "runtime/api/diagnostics.h"
#include "runtime/api/endpoint.h"
#include "runtime/api/guess_limit.h"
#include "runtime/api/ingress.h"
#include "runtime/api/router.h"
#include "runtime/base/health.h"
#include "runtime/http/server.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::api {

struct ApiConfig {
  std::string api_key;  // empty: no key is asked for
  EndpointConfig endpoint;
  IngressConfig ingress;
  std::vector<std::string> private_directories;  // of which no answer tells a path
  uint64_t max_image_bytes = 64ULL << 30;
};

class Api {
 public:
  // The parts outlive it. `quit` is called after the answer to a shutdown has been handed over.
  Api(ApiConfig config, sandbox::Lifecycle& lifecycle, images::ImageStore& images,
      const Health& health, std::function<void()> quit);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // For requests from now on.
  void SetApiKey(std::string api_key) { config_.api_key = std::move(api_key); }

  const Router& router() const { return router_; }

  // For AsioLoop::Listen.
  void Handle(std::shared_ptr<http::Exchange> exchange);

 private:
  void AddSandboxRoutes();
  void AddImageRoutes();
  void AddVolumeRoutes();
  void AddOperatorRoutes();
  void AddDiagnosticsRoutes();
  void AddNetworkRoutes();
  void AddRefusals();

  void CreateSandbox(const Call& call);
  void CreateWithVolumes(const Call& call, CreateRequest request);
  static sandbox::Lifecycle::Created SandboxAnswer(const Call& call, const CreateRequest& request);
  void StartSandbox(const Call& call, CreateRequest request);
  void CreateVolume(const Call& call);
  void GetVolume(const Call& call);
  void ListSandboxes(const Call& call);
  void GetSandbox(const Call& call);
  void DeleteSandbox(const Call& call);
  void RenewSandbox(const Call& call);
  void PauseSandbox(const Call& call);
  void ResumeSandbox(const Call& call);
  void PatchMetadata(const Call& call);
  void GetEndpoint(const Call& call);
  void GetNetwork(const Call& call);
  void GetLogs(const Call& call);
  void GetEvents(const Call& call);
  void Inspect(const Call& call);
  void Summarise(const Call& call);
  Result<DiagnosticsSubject> Diagnose(const sandbox::Sandbox& found);
  void ImportImage(const Call& call);
  void ImportSaved(const Call& call, UniqueFd archive, std::string name,
                   sandbox::PendingImports::Id pending);
  void Shutdown(const Call& call);

  void Route(Call call);

  ApiConfig config_;
  sandbox::Lifecycle& lifecycle_;
  images::ImageStore& images_;
  const Health& health_;
  std::function<void()> quit_;
  Router router_;
  GuessLimit guesses_;
};

}  // namespace atl::api
