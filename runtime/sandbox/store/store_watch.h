// Reports under `store` in /health why records and files of sandboxes cannot be written: a file
// system that is full, read-only or unmounted, or a store that fails for any other reason. Also
// warns about a file system that is nearly full, so the operator does not learn it from a failed
// create.
//
// Thread rule: on the loop. Queries file systems on the pool, where a hanging one delays nobody.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/guard.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {

class StoreWatch {
 public:
  struct Place {
    std::string name;  // name in messages, which anybody may read: "<data_dir>/state"
    std::string path;
    dev_t device = 0;  // the expected file system; 0: any
  };

  // All arguments outlive this object.
  StoreWatch(Loop& loop, Health& health, Store& store, std::vector<Place> places);
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;
  ~StoreWatch();

  // Registers a function that gives room back. It is called at each look while a file system has
  // no room.
  void OnNoRoom(std::function<void()> give_room) { give_room_ = std::move(give_room); }
  // Begins to watch.
  void Start() { Look(); }

 private:
  void Look();
  void Looked(std::string trouble);

  Loop& loop_;
  Health& health_;
  Store& store_;
  std::vector<Place> places_;
  std::function<void()> give_room_;
  Loop::Id timer_ = 0;
  bool troubled_ = false;
  int looks_ = 0;
  const Guard guard_;
};

// Returns the problem with the file system of `place`: another file system is mounted, it is
// read-only, nearly full ("little room": an early warning), or full ("no room"). Empty: no problem.
// Blocks.
std::string TroubleOf(const StoreWatch::Place& place);

}  // namespace atl::sandbox
