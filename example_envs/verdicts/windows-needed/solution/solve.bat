>C:\app\highest.txt echo 21.75
