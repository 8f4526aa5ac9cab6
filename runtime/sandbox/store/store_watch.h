// Reports under `store` in /health what keeps sandboxes' records and files from being written: a
// file system that is full, read-only or taken away, or a store that fails for any other reason. A
// file system that will soon be full is reported as well, so that nobody has to create a sandbox to
// find out.
//
// Thread rule: on the loop; file systems are asked on the pool, where one that hangs holds up
// nobody.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/guard.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {

class StoreWatch {
 public:
  struct Place {
    std::string name;  // for people, and for everybody: "<data_dir>/state"
    std::string path;
    dev_t device = 0;  // the file system that is to be there; 0: any
  };

  // All outlive it.
  StoreWatch(Loop& loop, Health& health, Store& store, std::vector<Place> places);
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;
  ~StoreWatch();

  // From now on.
  void Start() { Look(); }

 private:
  void Look();
  void Looked(std::string trouble);

  Loop& loop_;
  Health& health_;
  Store& store_;
  std::vector<Place> places_;
  Loop::Id timer_ = 0;
  bool troubled_ = false;
  int looks_ = 0;
  const Guard guard_;
};

// Returns what is wrong with the file system of `place`: it is another one, read-only, nearly full
// ("little room": an early warning), or full ("no room"). Empty: nothing. Blocks.
std::string TroubleOf(const StoreWatch::Place& place);

}  // namespace atl::sandbox
