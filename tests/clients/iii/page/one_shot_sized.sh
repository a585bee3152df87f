iii sandbox run python --cpus 2 --memory 512 -- python3 -c 'print(2 ** 10)'
