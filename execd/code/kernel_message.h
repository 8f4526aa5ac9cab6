// Messages of the Jupyter protocol 5.3 (jupyter-client.readthedocs.io, "Messaging"): frames of a
// ZMTP message in, type, parent and content out, and the requests that execd sends.
//
// Every message is signed with HMAC-SHA256 over its four JSON frames. The kernel's ports are on the
// sandbox's loopback, where each of its users may connect and one may take a port that the kernel
// gives up; the key is in a file that only the kernel's user can read. So a key is always used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "execd/http/json.h"
#include "runtime/base/result.h"

namespace atl::execd {

// "stream", "execute_reply", …; members of `content` as the protocol has them.
struct KernelMessage {
  std::string type;
  std::string parent;  // msg_id of the request that it belongs to; empty if there is none
  JsonDocument content;
};

class MessageCodec {
 public:
  // `key` signs; `session` names this client in what it sends.
  MessageCodec(std::string key, std::string session)
      : key_(std::move(key)), session_(std::move(session)) {}

  // Appends a request as a ZMTP message. `content` is a JSON object, `id` the new message's.
  void AppendRequest(std::string* out, std::string_view type, std::string_view id,
                     std::string_view content, int64_t unix_ms) const;
  // kPermissionDenied: not signed with the key. kInvalidArgument: malformed. Of the frames, nothing
  // but the four signed ones is looked at: no use is made of buffers.
  Result<KernelMessage> Decode(std::vector<std::string> frames) const;

 private:
  std::string Sign(std::string_view header, std::string_view parent, std::string_view metadata,
                   std::string_view content) const;

  std::string key_, session_;
};

}  // namespace atl::execd
