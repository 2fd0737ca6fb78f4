module words

go 1.19

require google.golang.org/appengine v1.6.7
