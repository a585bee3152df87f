# Thin: meson and the scripts in tools/ do the work. Needs only make on a Debian machine; everything else
# is installed by tools/packages.

# Debian's own python3 and meson, not whatever else is in front of them.
export PATH := /usr/bin:/bin:/usr/sbin:/sbin:$(PATH)

all: build/build.ninja
	@if [ -t 1 ]; then ninja -C build; else ninja -C build --quiet; fi

build/build.ninja:
	@tools/packages install build run
	@mkdir -p build
	@meson setup build >build/setup.log 2>&1 || { cat build/setup.log; exit 1; }

quickstart:
	@MAKE="$(MAKE)" tools/quickstart

# tools/check is a Python program: the packages come first.
check:
	@tools/packages install build run test
	@tools/check

check-all:
	@tools/packages install build run test
	@tools/check --all

check-quick:
	@tools/packages install build run test
	@tools/check build static unit

asan:
	@tools/check build-asan asan integration-asan integration-asan-alone

tsan:
	@tools/check build-tsan tsan integration-tsan integration-tsan-alone

lint:
	@tools/check static tidy

format:
	@tools/packages install test
	git ls-files -co --exclude-standard '*.[ch]' | xargs clang-format-14 -i

coverage:
	@tools/coverage

bench: all
	@tools/bench
	@tools/bench images

check-vm: all
	@tests/vm/run

check-fresh:
	@tests/fresh/run

check-drift:
	@tools/packages install test
	@tools/check-drift

soak:
	@tools/check build soak

fuzz:
	@tools/check fuzz

install: all
	@meson install -C build
	@if [ -z "$(DESTDIR)" ]; then ldconfig; fi

deb:
	@tools/deb

clean:
	rm -rf build build-check build-asan build-tsan build-fuzz build-deb build-coverage

.PHONY: all quickstart check check-quick asan tsan lint format bench check-vm check-fresh check-drift soak fuzz install deb clean
