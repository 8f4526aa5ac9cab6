// Fuzzes what a Jupyter kernel sends: ZMTP and its messages, which are also tried as if their
// signature were right, and kernelspecs. The first byte chooses how the stream is cut into pieces.
// The result must not depend on the cuts.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "execd/code/kernel_events.h"
#include "execd/code/kernel_message.h"
#include "execd/code/kernelspec.h"
#include "execd/code/zmtp.h"

namespace {

using namespace atl::execd;

struct Read {
  bool good = true;
  std::vector<ZmtpMessage> messages;
};

Read ReadAll(std::string_view stream, size_t piece) {
  Read read;
  ZmtpReader reader("ROUTER");
  const auto keep = [&read](ZmtpMessage message) {
    if (message.frames.size() > ZmtpReader::kMaxFrames) __builtin_trap();
    if (message.oversized != message.frames.empty()) __builtin_trap();
    read.messages.push_back(std::move(message));
  };
  while (!stream.empty() && read.good) {
    const std::string_view now = stream.substr(0, piece);
    read.good = reader.Feed(now, keep).has_value();
    stream.remove_prefix(now.size());
    if (ZmtpReader::held() > ZmtpReader::kMaxHeld) __builtin_trap();
  }
  return read;
}

// Handles frames as MessageCodec would accept them from a sender who has the key.
void TryEvents(const std::string& type, const std::string& content) {
  auto document = JsonDocument::Parse(content);
  if (!document) return;
  KernelMessage message;
  message.type = type;
  message.content = std::move(*document);
  for (const OutputForm form : {OutputForm::kText, OutputForm::kBytes}) {
    std::string events;
    AppendKernelEvents(&events, message, form, 1);
    for (size_t at = 0, end; at < events.size(); at = end + 2) {
      end = events.find("\n\n", at);
      if (end == std::string::npos) __builtin_trap();
      if (!JsonDocument::Parse(events.substr(at, end - at))) __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const std::string& stream : {bytes, ZmtpHello("ROUTER") + bytes}) {
    const Read whole = ReadAll(stream, stream.size() + 1);
    const Read cut = ReadAll(stream, data[0] % 32 + 1);
    if (whole.good != cut.good || whole.messages.size() != cut.messages.size()) __builtin_trap();
    const MessageCodec codec("key", "session");
    for (size_t i = 0; i < whole.messages.size(); ++i) {
      if (whole.messages[i].frames != cut.messages[i].frames) __builtin_trap();
      static_cast<void>(codec.Decode(whole.messages[i].frames));
      if (whole.messages[i].frames.size() > 1) {
        TryEvents(whole.messages[i].frames[0], whole.messages[i].frames[1]);
      }
    }
  }
  for (const char* type : {"stream", "execute_result", "error"}) TryEvents(type, bytes);
  static_cast<void>(ParseKernelspec(bytes));
  return 0;
}
