#pragma once

#include <gtest/gtest.h>

#include <string>

#include "runtime/sandbox/store/history.h"

namespace atl::sandbox {

// Returns the kinds of a sandbox's events in their order, each with a blank behind it.
inline std::string KindsOf(History& history, const std::string& id) {
  std::string kinds;
  const auto events = history.Find(id);
  EXPECT_TRUE(events);
  for (const HistoryEvent& event : *events) kinds += event.kind + " ";
  return kinds;
}

}  // namespace atl::sandbox
