// The trash of a store, and the threads of the janitor's process that empty it.
//
// Fair: the next piece of work goes to the tree that has had the least time so far. So a tree of a
// few hundred files is gone at once, whatever else lies there, and huge trees share the threads.
//
// Thread rule: Look and Finish from one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/tree_removal.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

class Trash {
 public:
  // `directory` is borrowed and outlives this object. If the kernel allows fewer threads, those do
  // the work; without any, Look and Finish do it.
  Trash(int directory, size_t threads);

  // Reads what lies in the trash now. "NAME.<anything>" belongs to the tree of NAME.
  void Look();
  // Returns when all of that is gone, or could not be deleted.
  void Finish();

 private:
  struct Tree {
    explicit Tree(TreeRemoval all) : removal(std::move(all)) {}

    TreeRemoval removal;
    std::set<std::string> more;  // further names to hand to the removal
    int64_t had_us = 0;
    bool begun = false;
    bool taken = false;  // a thread works on it and owns `removal` and `begun`
  };

  void Work();
  // Does a piece of work. Returns false if there is none. `lock` is open meanwhile.
  bool DoPiece(std::unique_lock<std::mutex>& lock);
  std::map<std::string, Tree>::iterator Next();
  // Returns true if nothing is left of the tree, or it cannot be deleted now.
  bool Continue(const std::string& name, Tree& tree) const;

  const int directory_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::map<std::string, Tree> trees_;
  bool finishing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace atl::spawner
