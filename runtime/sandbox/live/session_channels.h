// The daemon's end of the line by which a sandbox's execd asks for isolated sessions
// (wire/session.h). What comes is a stranger's: one request at a time, of bounded size, and about
// its own sandbox only, whatever it says; all else is the spawner's to check.
//
// A line is opened when a client's request may need it, so that sandboxes without sessions cost
// nothing, and after a restart of the daemon as before it.
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

// What begins the paths of whose requests a line is opened for.
inline constexpr std::string_view kSessionPaths = "/v1/isolated/";

class SessionChannels {
 public:
  // Both borrowed.
  SessionChannels(Loop& loop, launch::SpawnerClient& spawner) : loop_(loop), spawner_(spawner) {}
  SessionChannels(const SessionChannels&) = delete;
  SessionChannels& operator=(const SessionChannels&) = delete;
  ~SessionChannels();

  // Unless it is open. execd keeps whoever needs it waiting until it is; if it cannot be opened
  // they are told so there.
  void Open(const std::string& id, const std::string& execd_socket,
            const std::string& access_token);

 private:
  struct Channel {
    std::string id;
    UniqueFd socket;
    Loop::Id watch = 0;
    std::optional<LineHead> head{std::in_place};  // until the first frame
    wire::Frames frames{wire::kMaxSessionRequest};
    std::vector<UniqueFd> descriptors;  // that came with what is in frames
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
