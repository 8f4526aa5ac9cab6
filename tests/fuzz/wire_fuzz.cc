// Fuzzes the decoders of runtime/wire. The spawner decodes messages of a daemon that it does not
// trust. The daemon decodes reports and session requests of processes inside a sandbox. The first
// byte chooses the decoder and the number of descriptors.
//
// Checks that an accepted message has only one encoding, so that the two sides of a socket cannot
// disagree about a request. Only a hello, and a greeting of another protocol, may be followed by
// unknown bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"
#include "runtime/wire/start.h"

namespace {

using namespace atl;

template <typename T>
void RoundTrip(std::string_view bytes, const Result<T>& read, bool may_go_on = false) {
  if (!read) return;
  const std::string again = wire::EncodeFields(*read);
  if (again != bytes && !may_go_on) __builtin_trap();
}

void ReadRequest(std::string_view bytes, std::vector<UniqueFd>& descriptors) {
  const auto request = wire::DecodeRequest(bytes, descriptors);
  if (!request) return;
  [[maybe_unused]] const Status form = wire::CheckForm(request->message);
  const auto* build = std::get_if<wire::Build>(&request->message);
  if (form && build != nullptr) {
    if (build->plan->volumes.size() > wire::kMaxVolumes) __builtin_trap();
    for (const wire::Volume& volume : build->plan->volumes) {
      if (!volume.target.starts_with('/')) __builtin_trap();
    }
  }
  const bool hello = std::holds_alternative<wire::Hello>(request->message);
  if (wire::EncodePacket(*request).descriptors.size() != descriptors.size() && !hello) {
    __builtin_trap();
  }
  RoundTrip(bytes, request, hello);
}

void ReadReply(std::string_view bytes, std::vector<UniqueFd>& descriptors) {
  const auto reply = wire::DecodeReply(bytes, descriptors);
  if (!reply) return;
  const auto* greeting = std::get_if<wire::Greeting>(&reply->answer);
  RoundTrip(bytes, reply, greeting != nullptr && greeting->protocol != wire::kSpawnerProtocol);
}

void ReadSession(std::string_view bytes, std::vector<UniqueFd>& descriptors) {
  wire::SessionRequest request;
  if (!wire::DecodeFields(bytes, &request, descriptors)) return;
  const wire::SessionSpec* spec = std::visit(
      [](const auto& what) -> const wire::SessionSpec* {
        if constexpr (requires { what.spec; }) return &what.spec;
        return nullptr;
      },
      request.what);
  if (spec != nullptr && wire::CheckForm(*spec)) {
    for (const wire::SessionMount& mount : spec->mounts) {
      if (mount.target.starts_with("/proc/") || mount.target.find("/../") != std::string::npos) {
        __builtin_trap();
      }
    }
  }
  if (wire::EncodeFields(request) != bytes) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<UniqueFd> descriptors(data[0] / 4 % 4);
  if (data[0] >= 128) {
    ReadSession(bytes, descriptors);
    return 0;
  }
  switch (data[0] % 4) {
    case 0:
      ReadRequest(bytes, descriptors);
      break;
    case 1:
      ReadReply(bytes, descriptors);
      break;
    case 2:
      RoundTrip(bytes, wire::DecodeStartMessage(bytes));
      break;
    default:
      RoundTrip(bytes, wire::DecodeStartReport(bytes));
      break;
  }
  return 0;
}
