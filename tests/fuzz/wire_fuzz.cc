// Decoders of runtime/wire: the spawner reads them from a daemon it does not trust, the daemon
// reads reports from processes inside a sandbox. The first byte chooses the decoder.
//
// Beyond not crashing: what a decoder accepts must survive encoding, else the two sides of a socket
// could disagree about what was asked for.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/wire/plan.h"
#include "runtime/wire/start.h"

namespace {

template <typename Decode, typename Encode>
void RoundTrip(std::string_view bytes, Decode decode, Encode encode) {
  const auto first = decode(bytes);
  if (!first) return;
  const std::string again = encode(*first);
  const auto second = decode(again);
  if (!second || encode(*second) != again) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      RoundTrip(bytes, atl::wire::DecodePlan, atl::wire::EncodePlan);
      break;
    case 1:
      RoundTrip(bytes, atl::wire::DecodeStartMessage,
                [](const atl::wire::StartMessage& message) { return message.Encode(); });
      break;
    default:
      RoundTrip(bytes, atl::wire::DecodeStartReport,
                [](const atl::wire::StartReport& report) { return report.Encode(); });
      break;
  }
  return 0;
}
