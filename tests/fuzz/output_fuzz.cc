// Fuzzes the output frames that the daemon reads from a process inside a sandbox.
//
// Checks that the frames do not depend on the pieces in which the bytes arrive, that an accepted
// frame survives encoding, and that the reader holds no more than one frame.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/wire/output.h"

namespace {

// Returns the frames, encoded again, and a mark if the stream was refused.
std::string Decode(std::string_view bytes, size_t piece) {
  std::string all;
  atl::wire::OutputFrames frames;
  while (!bytes.empty()) {
    const std::string_view next = bytes.substr(0, piece);
    bytes.remove_prefix(next.size());
    frames.Append(next);
    for (;;) {
      const auto frame = frames.Next();
      if (!frame) return all + "refused";
      if (!*frame) break;
      all += (*frame)->Encode();
    }
    if (frames.pending() > atl::wire::kMaxOutputFrame + 4) __builtin_trap();
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = Decode(bytes, bytes.size() + 1);
  if (Decode(bytes, static_cast<size_t>(data[0] % 64) + 1) != whole) __builtin_trap();
  if (!whole.ends_with("refused") && !bytes.starts_with(whole)) __builtin_trap();
  return 0;
}
