#include "fix/shadow_tree.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string get(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class ShadowTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    put(folder_.path() / "train.py", "import src.engine\n");
    put(folder_.path() / "src/engine.py", "print(1)\n");
    put(folder_.path() / "src/__pycache__/engine.pyc", "old");
    put(folder_.path() / "data/big.bin", "numbers");
    put(folder_.path() / "run.sh", "python train.py\n");
    fs::permissions(folder_.path() / "run.sh", fs::perms::owner_all);
  }
  Project project() const { return *read_project({folder_.path().string()}, Versions{}); }

  testing::TemporaryFolder folder_;
};

TEST_F(ShadowTreeTest, HasTheProjectsTextsAndLinksToTheRest) {
  const Project now = project();
  const Project after = now.with({{*now.at(folder_.path() / "src/engine.py"), "print(2)\n"}});
  const auto tree = ShadowTree::of(after, folder_.path());

  ASSERT_TRUE(tree) << tree.error().what;
  EXPECT_EQ(get(tree->path() / "src/engine.py"), "print(2)\n");
  EXPECT_EQ(get(tree->path() / "train.py"), "import src.engine\n");
  // Python looks for modules beside the file that a link means
  EXPECT_FALSE(fs::is_symlink(tree->path() / "train.py"));
  EXPECT_EQ(get(tree->path() / "data/big.bin"), "numbers");
  EXPECT_FALSE(fs::exists(tree->path() / "src/__pycache__"));
  EXPECT_NE(fs::status(tree->path() / "run.sh").permissions() & fs::perms::owner_exec,
            fs::perms::none);
  EXPECT_EQ(get(folder_.path() / "src/engine.py"), "print(1)\n");
}

TEST_F(ShadowTreeTest, KeepsWritesToExistingFilesToItself) {
  const auto tree = ShadowTree::of(project(), folder_.path());
  ASSERT_TRUE(tree);
  put(tree->path() / "data/big.bin", "other numbers");

  EXPECT_EQ(get(folder_.path() / "data/big.bin"), "numbers");
  EXPECT_TRUE(tree->changed_behind_links().empty());
}

TEST_F(ShadowTreeTest, LinksWhatIsTooLargeToCopyAndSeesWhenItIsWrittenTo) {
  put(folder_.path() / "data/huge.bin", std::string(17U << 20U, 'x'));
  const auto tree = ShadowTree::of(project(), folder_.path());
  ASSERT_TRUE(tree);
  EXPECT_TRUE(fs::is_symlink(tree->path() / "data/huge.bin"));
  EXPECT_TRUE(tree->changed_behind_links().empty());

  fs::last_write_time(folder_.path() / "data/huge.bin",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));

  ASSERT_EQ(tree->changed_behind_links().size(), 1U);
  EXPECT_EQ(tree->changed_behind_links().front().filename(), "huge.bin");
}

TEST_F(ShadowTreeTest, IsGoneAfterwardsAndTakesNothingAlong) {
  fs::path where;
  {
    const auto tree = ShadowTree::of(project(), folder_.path());
    ASSERT_TRUE(tree);
    where = tree->path();
    put(where / "out/model.pt", "weights");
  }
  EXPECT_FALSE(fs::exists(where));
  EXPECT_EQ(get(folder_.path() / "data/big.bin"), "numbers");
  EXPECT_FALSE(fs::exists(folder_.path() / "out"));
}

}  // namespace
}  // namespace lockstep
