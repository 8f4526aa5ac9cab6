// The lower bound of a transfer through two processes: TCP into a relay, a Unix socket into a
// second process, and its file. It is the measure for transfers through atolld and execd, which
// take the same path with HTTP, tokens and multipart on top.
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
  // Starts two processes that serve until this object is destroyed. They keep the file in
  // `directory`. One transfer at a time.
  static Result<std::unique_ptr<Relay>> Start(const std::string& directory);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  // Writes `size` bytes into the file. Returns bytes per second, from the first byte to the answer
  // that all bytes are written.
  Result<double> Upload(uint64_t size);
  // Reads the whole file back. Returns bytes per second.
  Result<double> Download(uint64_t size);

 private:
  Relay() = default;
  std::string top_;
  uint16_t port_ = 0;
  pid_t near_ = -1, far_ = -1;
};

// SendBytes sends `size` bytes of no particular content. TakeBytes receives and discards `size`
// bytes.
Status SendBytes(int socket, uint64_t size);
Status TakeBytes(int socket, uint64_t size);

}  // namespace atl::bench
