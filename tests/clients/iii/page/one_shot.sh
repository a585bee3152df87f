iii sandbox run python -- python3 -c 'print("hi")'
