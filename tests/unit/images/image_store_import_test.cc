// Imports of archives, good and bad.
#include "images/image_store.h"

#include <gtest/gtest.h>

#include "tests/unit/images/image_store_fixture.h"

namespace atl::images {
namespace {

TEST_F(ImageStoreTest, ImportsAreQueued) {
  FakeImage{{"a"}, ""}.Fill(runner_, HostArchitecture());
  std::vector<std::string> order;
  for (const char* name : {"one", "two", "three"}) {
    store_->Import(kHost, Archive(), name, [&order](const Result<Image>& image) {
      order.push_back(image ? image->name : image.error().message());
    });
  }
  loop_.Run();
  EXPECT_EQ(order, (std::vector<std::string>{"one:latest", "two:latest", "three:latest"}));
  EXPECT_EQ(runner_.extracted.size(), 1U);
  size_t refused = 0;
  for (int i = 0; i < 20; ++i) {
    store_->Import(kHost, Archive(), "x", [&refused](const Result<Image>& image) {
      if (!image && image.error().code() == Code::kUnavailable) ++refused;
    });
  }
  loop_.Run();
  EXPECT_EQ(refused, 3U) << "one runs, sixteen wait";
}

TEST_F(ImageStoreTest, RefusesWhatIsNoImage) {
  ASSERT_TRUE(Import({{"base"}, ""}, "good"));
  runner_.members = {{"oci-layout", "{}"}};
  Refused("skopeo copy");
  runner_.members = {{"index.json", "nonsense"}};
  Refused("not JSON");
  FakeImage{{"a"}, ""}.Fill(runner_, "s390x");
  Refused("is for linux/s390x");
  FakeImage{{"a"}, "", R"({"WorkingDir":"/proc/self/fd/8"})"}.Fill(runner_, HostArchitecture());
  Refused("within /proc");
}

TEST_F(ImageStoreTest, RefusesForgedBlobs) {
  const FakeImage image{{"base", "top"}, ""};
  for (const std::string& victim : {std::string("base"), std::string("top")}) {
    image.Fill(runner_, HostArchitecture());
    std::string& blob = runner_.members[FakeImage::Hex(victim)];
    blob[0] = 'X';
    Refused("digest mismatch");
    blob += "longer";
    Refused("its descriptor says");
    runner_.members.erase(FakeImage::Hex(victim));
    Refused("is missing in the archive");
  }
  // Config and manifest: members whose bytes do not match their name.
  image.Fill(runner_, HostArchitecture());
  for (auto& [name, bytes] : runner_.members) {
    if (name == "index.json" || name == FakeImage::Hex("base") || name == FakeImage::Hex("top")) {
      continue;
    }
    const std::string original = bytes;
    bytes[bytes.size() - 1] = ' ';
    Refused("digest mismatch");
    bytes = original;
  }
}

// A pull leaves out layers that the store already has.
TEST_F(ImageStoreTest, ALayerThatIsHereNeedNotBeInTheArchive) {
  ASSERT_TRUE(Import({{"base", "a"}, ""}, "a"));
  EXPECT_EQ(store_->LayerDigests(kHost), (std::set<std::string>{Sha256Of("base"), Sha256Of("a")}));
  const FakeImage image{{"base", "b"}, ""};
  image.Fill(runner_, HostArchitecture());
  runner_.members.erase(FakeImage::Hex("base"));
  ASSERT_TRUE(ImportMembers("b"));
  EXPECT_EQ(runner_.extracted.size(), 3U);
  EXPECT_EQ(store_->Find(kHost, "b")->layers.back(), store_->Find(kHost, "a")->layers.back());
  // The archive's copy of such a layer is ignored.
  image.Fill(runner_, HostArchitecture());
  runner_.members[FakeImage::Hex("base")] = "forged";
  ASSERT_TRUE(ImportMembers("b"));
  EXPECT_EQ(store_->Find(kHost, "b")->layers.back(), store_->Find(kHost, "a")->layers.back());
  // A removed layer no longer counts as present.
  ASSERT_TRUE(store_->Remove(kHost, "a", Unused));
  ASSERT_TRUE(store_->Remove(kHost, "b", Unused));
  loop_.Run();
  EXPECT_TRUE(store_->LayerDigests(kHost).empty());
  image.Fill(runner_, HostArchitecture());
  runner_.members.erase(FakeImage::Hex("base"));
  Refused("is missing in the archive and in the store");
}

TEST_F(ImageStoreTest, RefusesALayerThatUnpacksToSomethingElse) {
  const FakeImage image{{"base", "top"}, ""};
  image.Fill(runner_, HostArchitecture());
  runner_.reports["top"].diff_id = Sha256Of("another");
  Refused("digest mismatch, it unpacks to");
  runner_.reports.erase("top");
  image.Fill(runner_, HostArchitecture());
  EXPECT_TRUE(ImportMembers("good"));
}

TEST_F(ImageStoreTest, AnUnpackersRefusalComesBackInItsWords) {
  const FakeImage image{{"base", "top"}, ""};
  image.Fill(runner_, HostArchitecture());
  runner_.reports.erase("top");
  Refused("'x': its name contains '..'");
  runner_.extract_error = Error(Code::kInternal, "error resource_exhausted: write: No space left");
  Refused("No space left", Code::kResourceExhausted);
}

TEST_F(ImageStoreTest, AFailedPublishLeavesNothing) {
  runner_.fail_publish = true;
  FakeImage{{"base", "top"}, ""}.Fill(runner_, HostArchitecture());
  Refused("full", Code::kResourceExhausted);
}

TEST_F(ImageStoreTest, TwoLayersAreUnpackedAtOnceAndAFailureWaitsForTheOther) {
  class HoldingRunner : public FakeRunner {
   public:
    using FakeRunner::FakeRunner;
    void ExtractLayer(int, wire::LayerId layer, Done done) override {
      present.insert(layer);
      held.emplace(layer, std::move(done));
    }
    std::map<wire::LayerId, Done> held;
  };
  HoldingRunner runner(loop_);
  store_.reset();
  store_ = *ImageStore::Open(directory_, loop_, runner);
  FakeImage{{"base", "middle", "top"}, ""}.Fill(runner, HostArchitecture());
  std::optional<Result<Image>> result;
  store_->Import(kHost, Archive(), "x", [&](Result<Image> r) { result = std::move(r); });
  loop_.Run();
  ASSERT_EQ(runner.held.size(), 2U);
  runner.held.at(1)(Fail(runner.extract_error));
  loop_.Run();
  EXPECT_EQ(runner.held.size(), 2U) << "another was begun in vain";
  EXPECT_TRUE(runner.present.contains(2)) << "it is being written to";
  EXPECT_FALSE(result);
  runner.held.at(2)(runner.reports.at("middle").Encode());
  loop_.Run();
  ASSERT_TRUE(result && !*result);
  EXPECT_NE(result->error().message().find("its name contains '..'"), std::string::npos);
  EXPECT_TRUE(runner.present.empty());
  store_.reset();
}

TEST_F(ImageStoreTest, ALayerThatCannotBeBegunEndsTheImport) {
  class RefusingRunner : public FakeRunner {
   public:
    using FakeRunner::FakeRunner;
    void ExtractLayer(int, wire::LayerId, Done done) override {
      done(Fail(Code::kUnavailable, "no descriptors"));
    }
  };
  RefusingRunner runner(loop_);
  store_.reset();
  store_ = *ImageStore::Open(directory_, loop_, runner);
  FakeImage{{"base", "middle", "top"}, ""}.Fill(runner, HostArchitecture());
  int ended = 0;
  store_->Import(kHost, Archive(), "x", [&](const Result<Image>& r) { ended += r ? 100 : 1; });
  loop_.Run();
  EXPECT_EQ(ended, 1);
  store_.reset();
}

TEST_F(ImageStoreTest, AFileInPlaceOfABlobMustBeRegular) {
  class LinkingRunner : public FakeRunner {
   public:
    using FakeRunner::FakeRunner;
    void SplitArchive(int archive, int directory, Done done) override {
      EXPECT_EQ(symlinkat("/etc/passwd", directory, "index.json"), 0);
      FakeRunner::SplitArchive(archive, directory, std::move(done));
    }
  };
  LinkingRunner runner(loop_);
  store_.reset();
  store_ = *ImageStore::Open(directory_, loop_, runner);
  std::optional<Result<Image>> result;
  store_->Import(kHost, Archive(), "x", [&](Result<Image> r) { result = std::move(r); });
  loop_.Run();
  ASSERT_TRUE(result && !*result);
  EXPECT_EQ(result->error().message().find("JSON"), std::string::npos) << "it was followed";
  store_.reset();
}

}  // namespace
}  // namespace atl::images
