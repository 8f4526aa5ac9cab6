// The daemon's end of the channels by which execd asks for isolated sessions (wire/session.h). The
// input is hostile. The daemon handles one request at a time, of bounded size, and only about the
// sandbox of the channel, whatever the request says. The spawner checks everything else.
//
// The daemon opens a channel when a client's request may need it. So sandboxes without sessions
// cost nothing, and a restarted daemon needs no recovery of channels.
//
// Thread rule: on the loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/sandbox/output/execd_line.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/session.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

// Prefix of the paths whose requests open a channel.
inline constexpr std::string_view kSessionPaths = "/v1/isolated/";

class SessionChannels {
 public:
  // Both arguments are borrowed.
  SessionChannels(Loop& loop, launch::SpawnerClient& spawner) : loop_(loop), spawner_(spawner) {}
  SessionChannels(const SessionChannels&) = delete;
  SessionChannels& operator=(const SessionChannels&) = delete;
  ~SessionChannels();

  // Opens the sandbox's channel unless it is open. execd holds requests that need the channel until
  // it is open, and fails them if it cannot be opened.
  void Open(const std::string& id, const std::string& execd_socket,
            const std::string& access_token);

 private:
  struct Channel {
    std::string id;
    UniqueFd socket;
    Loop::Id watch = 0;
    std::optional<LineHead> head{std::in_place};  // until the first frame
    wire::Frames frames{wire::kMaxSessionRequest};
    std::vector<UniqueFd> descriptors;  // descriptors that came with the bytes in `frames`
  };
  using ChannelPtr = std::shared_ptr<Channel>;

  void OnReadable(const ChannelPtr& channel);
  Status Take(const ChannelPtr& channel, std::string_view bytes);
  void Ask(const ChannelPtr& channel, wire::SessionRequest request);
  void Answer(const ChannelPtr& channel, const Status& status);
  void Listen(const ChannelPtr& channel);
  void Close(const ChannelPtr& channel);

  Loop& loop_;
  launch::SpawnerClient& spawner_;
  std::map<std::string, ChannelPtr> channels_;
};

}  // namespace atl::sandbox
