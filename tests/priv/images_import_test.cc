// The image store with the real unpacker: from the bytes of an archive to a mounted root.
#include <sched.h>
#include <sys/mount.h>

#include <optional>

#include "images/image_store.h"
#include "images/oci_layout.h"
#include "runtime/tenants/caller.h"
#include "tests/priv/unpack_fixture.h"
#include "tests/unit/images/fake_parts.h"
#include "tests/unit/images/gzip.h"
#include "tests/unit/images/tar_builder.h"

namespace atl::images {
namespace {

const tenants::Caller kHost;

// Does the spawner's work for the store, in this process.
class DirectRunner : public UnpackRunner {
 public:
  DirectRunner(Loop& loop, std::string store) : loop_(loop), store_(std::move(store)) {}

  std::string LayerPath(wire::LayerId layer) const { return store_ + "/" + std::to_string(layer); }

  void SplitArchive(int archive, int directory, Done done) override {
    Unpack({.mode = "split", .input = archive, .output = directory}, std::move(done));
  }
  void ExtractLayer(int blob, wire::LayerId layer, Done done) override {
    EXPECT_EQ(mkdir(LayerPath(layer).c_str(), 0755), 0);
    EXPECT_EQ(chown(LayerPath(layer).c_str(), kLayerIdBase, kLayerIdBase), 0);
    auto directory = sys::Open(LayerPath(layer), O_RDONLY | O_DIRECTORY);
    Unpack({.mode = "layer", .input = blob, .output = directory->get()}, std::move(done));
  }
  void PackLayer(wire::LayerId layer, int file, Done done) override {
    auto directory = sys::Open(LayerPath(layer), O_RDONLY | O_DIRECTORY);
    Unpack({.mode = "pack", .input = file, .output = directory->get()}, std::move(done));
  }
  void PublishLayer(wire::LayerId, Done done) override {
    loop_.Post([done = std::move(done)] { done(std::string()); });
  }
  void RemoveLayer(wire::LayerId layer, Done done) override {
    const Status removed = sys::RemoveTree(AT_FDCWD, LayerPath(layer));
    EXPECT_TRUE(removed);
    loop_.Post([done = std::move(done)] { done(std::string()); });
  }

 private:
  void Unpack(const UnpackRun& run, Done done) {
    auto outcome = RunUnpack(run);
    ASSERT_TRUE(outcome);
    Result<std::string> result = outcome->report;
    if (outcome->wait_status != 0) result = Fail(Code::kInvalidArgument, outcome->report);
    loop_.Post([done = std::move(done), result = std::move(result)] { done(result); });
  }
  Loop& loop_;
  std::string store_;
};

class ImagesImport : public UnpackFixture {
 protected:
  void SetUp() override {
    UnpackFixture::SetUp();
    for (const char* name : {"store", "images"}) {
      expected_.insert(name);
      ASSERT_EQ(mkdir(Path(name).c_str(), 0700), 0);
    }
    runner_.emplace(loop_, Path("store"));
    auto store = ImageStore::Open(Path("images"), loop_, *runner_);
    ASSERT_TRUE(store) << store.error().message();
    store_ = *std::move(store);
  }
  Result<Image> Import(const std::string& archive) {
    Write(Path("input"), archive);
    std::optional<Result<Image>> result;
    store_->Import(kHost, *sys::Open(Path("input"), O_RDONLY), "test",
                   [&](Result<Image> r) { result = std::move(r); });
    loop_.Run();
    EXPECT_TRUE(std::filesystem::is_empty(Path("images/tmp")));
    return *std::move(result);
  }
  // Returns an archive of these layers (gzip), as skopeo would write it.
  static std::string Archive(const std::vector<std::string>& tars) {
    TarBuilder archive;
    std::string layers;
    std::string diff_ids;
    const auto add = [&archive](const std::string& bytes) {
      archive.File("blobs/sha256/" + FakeImage::Hex(bytes), bytes);
    };
    for (const std::string& tar : tars) {
      const std::string blob = Gzip(tar);
      add(blob);
      const std::string comma = layers.empty() ? "" : ",";
      layers += comma + FakeImage::Descriptor("application/vnd.oci.image.layer.v1.tar+gzip", blob);
      diff_ids += comma + "\"" + Sha256Of(tar) + "\"";
    }
    const std::string config = R"({"os":"linux","architecture":")" +
                               std::string(HostArchitecture()) + R"(","rootfs":{"diff_ids":[)" +
                               diff_ids + "]}}";
    add(config);
    const std::string manifest =
        R"({"config":)" + FakeImage::Descriptor("x", config) + R"(,"layers":[)" + layers + "]}";
    add(manifest);
    archive.File("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
    archive.File("index.json",
                 R"({"manifests":[)" +
                     FakeImage::Descriptor("application/vnd.oci.image.manifest.v1+json", manifest) +
                     "]}");
    return archive.Finish();
  }

  ManualLoop loop_;
  std::optional<DirectRunner> runner_;
  std::unique_ptr<ImageStore> store_;
};

TEST_F(ImagesImport, FromAnArchiveToAMountedRoot) {
  const std::string base =
      TarBuilder().Dir("etc").File("etc/old", "1").File("etc/kept", "1").Finish();
  const std::string top = TarBuilder().File("etc/.wh.old", "").File("etc/new", "2").Finish();
  // A compressed archive gives the same image as a plain one.
  auto image = Import(Gzip(Archive({base, top})));
  ASSERT_TRUE(image) << image.error().message();
  ASSERT_EQ(image->layers.size(), 2U);
  ASSERT_EQ(unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  const std::string merged = Path("images") + "/merged";
  ASSERT_EQ(mkdir(merged.c_str(), 0755), 0);
  const std::string options = "userxattr,lowerdir=" + runner_->LayerPath(image->layers[0]) + ":" +
                              runner_->LayerPath(image->layers[1]);
  ASSERT_EQ(mount("overlay", merged.c_str(), "overlay", MS_RDONLY, options.c_str()), 0);
  EXPECT_EQ(Read(merged + "/etc/kept"), "1");
  EXPECT_EQ(Read(merged + "/etc/new"), "2");
  EXPECT_EQ(Read(merged + "/etc/old"), "<missing>");
  EXPECT_EQ(umount(merged.c_str()), 0);
  EXPECT_EQ(rmdir(merged.c_str()), 0);
}

TEST_F(ImagesImport, AHostileLayerLeavesTheStoreAsItWas) {
  const std::string good = TarBuilder().File("a", "1").Finish();
  ASSERT_TRUE(Import(Archive({good})));
  const std::string evil = TarBuilder().File("ok", "1").HardLink("h", "../../secret/file").Finish();
  auto image = Import(Archive({good, TarBuilder().File("b", "").Finish(), evil}));
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(image.error().message(),
            "'h': hard link to '../../secret/file': its name contains '..'");
  EXPECT_EQ(store_->List(kHost).size(), 1U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(Path("store")), {}), 1);
}

TEST_F(ImagesImport, ADamagedArchiveIsRefused) {
  std::string archive = Archive({TarBuilder().File("a", std::string(5000, 'x')).Finish()});
  archive[520] ^= 1;  // a byte of the first blob, after its tar header
  auto image = Import(archive);
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message().find("digest mismatch"), std::string::npos)
      << image.error().message();
  EXPECT_TRUE(std::filesystem::is_empty(Path("store")));
}

}  // namespace
}  // namespace atl::images
