// Runs a process of atoll-unpack (unpacker.h) for each archive and for each layer.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/reply.h"

namespace atl::spawner {

class Unpacks {
 public:
  using Done = std::function<void(Result<wire::Unpacked>)>;

  Unpacks(const Host& host, EventLoop& loop) : host_(host), loop_(loop) {}

  // `mode` is "split", "layer" or "pack". For "split" and "layer" `input` must be a regular file
  // opened read-only. For "pack" it must be a regular file open for writing, or /dev/null. `output`
  // must be a directory.
  void Start(const char* mode, UniqueFd input, UniqueFd output, Done done);
  // Writes the difference of two stacks of layers, read-only mounts, into `out`. `arguments`,
  // `layers`: see runtime/wire/unpack.h.
  void Diff(const std::vector<std::string>& arguments, const std::vector<UniqueFd>& layers,
            UniqueFd out, Done done);
  // Ends all processes, without calling anybody's `done`.
  void Abandon();
  // Returns true if `pid` was one of these processes.
  bool OnChildExit(pid_t pid, int wait_status);

 private:
  struct Child {
    UniqueFd report;
    EventLoop::Id watch = 0;
    std::string text;
    Done done;
  };
  void Run(const std::vector<std::string>& arguments, int input, int output,
           std::span<const UniqueFd> layers, Done done);
  void OnReadable(pid_t pid);

  const Host& host_;
  EventLoop& loop_;
  std::map<pid_t, Child> runs_;
};

}  // namespace atl::spawner
