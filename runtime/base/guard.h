// Ties callbacks to the life of the object that they are for. Timers and descriptors end with
// their owner; an answer of the spawner, a posted callback or the end of pool work may come later.
//
//   loop_.Post(guard_([this, id] { Wake(id); }));  // nothing, once *this is gone
//   ...
//   Guard guard_;  // the last member, so that it goes first
//
// Thread rule: the callback, the guard and its owner belong to one thread. Pool work may carry the
// callback, and must not call it.
#pragma once

#include <memory>
#include <utility>

namespace atl {

class Guard {
 public:
  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Returns `callback` as a function of the same arguments that does nothing once the guard is
  // gone.
  template <typename Callback>
  auto operator()(Callback callback) const {
    return [callback = std::move(callback),
            alive = std::weak_ptr(alive_)](auto&&... arguments) mutable {
      if (!alive.expired()) callback(std::forward<decltype(arguments)>(arguments)...);
    };
  }

  // True as long as the guard is there, for a callback that has something to do either way.
  std::weak_ptr<const void> watch() const { return alive_; }

 private:
  const std::shared_ptr<const void> alive_ = std::make_shared<const bool>(true);
};

}  // namespace atl
