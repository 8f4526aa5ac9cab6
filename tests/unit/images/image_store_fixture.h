// An image store in a directory of its own, with a fake unpacker.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "images/image_store.h"
#include "images/oci_layout.h"
#include "runtime/tenants/caller.h"
#include "tests/unit/images/fake_parts.h"

namespace atl::images {

inline const tenants::Caller kHost;

class ImageStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // tmpfs, because the database is synced at every commit and no test here is about that.
    char pattern[] = "/dev/shm/atoll-store-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Reopen() {
    store_.reset();
    auto store = ImageStore::Open(directory_, loop_, runner_);
    ASSERT_TRUE(store) << store.error().message();
    store_ = *std::move(store);
    loop_.Run();
  }
  UniqueFd Archive() {
    auto fd = store_->TemporaryFile();
    EXPECT_TRUE(fd) << fd.error().message();
    return *std::move(fd);
  }
  Result<Image> Import(const FakeImage& image, const std::string& name) {
    image.Fill(runner_, HostArchitecture());
    return ImportMembers(name);
  }
  Result<Image> ImportMembers(const std::string& name) {
    std::optional<Result<Image>> result;
    store_->Import(kHost, Archive(), name, [&](Result<Image> r) { result = std::move(r); });
    EXPECT_FALSE(result) << "called from inside Import";
    loop_.Run();
    EXPECT_TRUE(result);
    EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/tmp"));
    return *std::move(result);
  }
  // Imports members that somebody has tampered with. Expects an error that contains `why`, and
  // nothing left behind.
  void Refused(const std::string& why, Code code = Code::kInvalidArgument) {
    const auto present = runner_.present;
    const size_t before = store_->List(kHost).size();
    auto image = ImportMembers("bad");
    ASSERT_FALSE(image) << why;
    EXPECT_EQ(image.error().code(), code) << image.error().message();
    EXPECT_NE(image.error().message().find(why), std::string::npos) << image.error().message();
    EXPECT_EQ(runner_.present, present);
    EXPECT_EQ(store_->List(kHost).size(), before);
    Reopen();
    EXPECT_EQ(store_->List(kHost).size(), before);
  }

  static bool Unused(wire::LayerId) { return false; }

  ManualLoop loop_;
  FakeRunner runner_{loop_};
  std::string directory_;
  std::unique_ptr<ImageStore> store_;
};

}  // namespace atl::images
