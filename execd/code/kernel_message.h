// Messages of the Jupyter protocol 5.3 (jupyter-client.readthedocs.io, "Messaging"). Decodes the
// frames of a ZMTP message to type, parent and content. Encodes the requests that execd sends.
//
// Every message is signed with HMAC-SHA256 over its four JSON frames, because a kernel's ports may
// be on the sandbox's loopback: every user there can connect to them, and can take a port that the
// kernel gives up. The key is in a file that only the kernel's user can read.
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
  std::string parent;  // msg_id of the request that caused it; empty: none
  JsonDocument content;
};

class MessageCodec {
 public:
  // `key` is the HMAC key. `session` is the session id in the headers of requests.
  MessageCodec(std::string key, std::string session)
      : key_(std::move(key)), session_(std::move(session)) {}

  // Appends a request as a ZMTP message. `content` is a JSON object, `id` the new message's.
  void AppendRequest(std::string* out, std::string_view type, std::string_view id,
                     std::string_view content, int64_t unix_ms) const;
  // Verifies and parses a message. Reads only the four signed frames; buffers are ignored.
  // kPermissionDenied: the signature is wrong. kInvalidArgument: the message is malformed.
  Result<KernelMessage> Decode(std::vector<std::string> frames) const;

 private:
  std::string Sign(std::string_view header, std::string_view parent, std::string_view metadata,
                   std::string_view content) const;

  std::string key_, session_;
};

}  // namespace atl::execd
