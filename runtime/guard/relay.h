// Passes the bytes of two connected stream sockets on, both ways, with their ends: a side that has
// shut down its sending side is shut down on the other, and an error ends both.
//
// A relay holds memory only while bytes wait for a side that takes none: at most kPiece each way.
// Whoever has a connection can make that happen, so the sandbox pays for little.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::guard {

class Relay {
 public:
  // `ended` is called once, later, and may destroy the relay. `loop` is borrowed. Both sockets are
  // non-blocking.
  Relay(EventLoop& loop, UniqueFd a, UniqueFd b, std::function<void()> ended)
      : loop_(loop), a_{std::move(a)}, b_{std::move(b)}, ended_(std::move(ended)) {}
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  Status Begin();

 private:
  static constexpr size_t kPiece = 32 << 10;
  struct Side {
    UniqueFd socket;
    EventLoop::Id watch = 0;
    // Bytes read here that the other side has not taken yet, from `begin` to `end`. Null: none.
    std::unique_ptr<char[]> bytes;
    size_t begin = 0, end = 0;
    bool read_all = false;  // end of file
    bool told_end = false;  // the other side has been shut down for it
    bool hung_up = false;   // its peer takes nothing more; what it has sent can still be read
    bool Waits() const { return bytes != nullptr; }
    bool Delivered() const { return read_all && !Waits(); }
  };
  void OnEvent(Side& side, uint32_t events);
  // Moves bytes until a socket would block. False: the connection is broken.
  static bool Pump(Side& from, Side& to);
  void Want(Side& side, const Side& other);

  EventLoop& loop_;
  Side a_, b_;
  std::function<void()> ended_;
  bool over_ = false;
};

}  // namespace atl::guard
