// What a transfer costs at least when it goes through two processes: TCP into a relay, a Unix
// socket into a second process, and that one's file. The measure for transfers through atolld and
// execd, which go the same way with HTTP, tokens and multipart on top.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

class Relay {
 public:
  // The file is in `directory`; two processes serve until this is destroyed. One transfer at a
  // time.
  static Result<std::unique_ptr<Relay>> Start(const std::string& directory);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  // `size` bytes into the file; bytes a second from the first to the answer that all are written.
  Result<double> Upload(uint64_t size);
  // The whole file back.
  Result<double> Download(uint64_t size);

 private:
  Relay() = default;
  std::string top_;
  uint16_t port_ = 0;
  pid_t near_ = -1, far_ = -1;
};

// Sends that many bytes of no content / takes that many and forgets them.
Status SendBytes(int socket, uint64_t size);
Status TakeBytes(int socket, uint64_t size);

}  // namespace atl::bench
