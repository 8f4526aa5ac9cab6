// Runs atoll-unpack: a process per archive or layer, in namespaces of its own, as root of a user
// namespace that holds nothing but the store's reserved ids, with one input and one directory.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/spawner/poller.h"

namespace atl::spawner {

class Unpacks {
 public:
  using Done = std::function<void(Result<std::string> report)>;

  Unpacks(const Host& host, Poller& poller) : host_(host), poller_(poller) {}

  // mode: "split" or "layer". `input` must be a regular file opened read-only, `output` a
  // directory.
  void Start(const char* mode, UniqueFd input, UniqueFd output, Done done);
  // True if `pid` was one of ours.
  bool OnChildExit(pid_t pid, int wait_status);

 private:
  struct Run {
    UniqueFd report;
    std::string text;
    Done done;
  };
  void OnReadable(pid_t pid);

  const Host& host_;
  Poller& poller_;
  std::map<pid_t, Run> runs_;
};

}  // namespace atl::spawner
